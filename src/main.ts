/** The program: runs one command and exits. */
import { rollcall } from "./cli/Rollcall.ts"
import { runMain } from "./cli/terminal/Process.ts"

await runMain(rollcall(process.argv.slice(2)))
