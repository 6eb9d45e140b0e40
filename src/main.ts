/** The program: runs one command and exits. */
import { runMain } from "./cli/Process.ts"
import { rollcall } from "./cli/Rollcall.ts"

await runMain(rollcall(process.argv.slice(2)))
