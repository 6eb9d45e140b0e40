/** Runs the commands of pages of the documentation, in one shell, and writes their files. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../../..", import.meta.url))

/**
 * The commands of a page as a script. Before each of them, the script writes the files above it: the blocks of TypeScript whose first line
 * is a comment with a path.
 */
export const scriptOf = (page: string): ReadonlyArray<string> =>
  [...readFileSync(`${root}${page}`, "utf8").matchAll(/^```(sh|ts)\n(.*?)^```/gms)].flatMap(
    ([, language, code = ""]) => {
      if (language === "sh") return [code]
      const path = /^\/\/ (\S+\.ts)\n/.exec(code)?.[1]
      return path === undefined
        ? []
        : [`mkdir -p "$(dirname ${path})"\ncat > ${path} <<'END_OF_FILE'\n${code}END_OF_FILE\n`]
    }
  )

/** A group whose processes have all ended no longer exists. */
const killGroup = (group: number | undefined) => {
  try {
    if (group !== undefined) process.kill(-group, "SIGKILL")
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error
  }
}

/** Runs a script until its last command has ended, then `use`, and then ends all that it started. */
export const whileRunning = async <A>(
  script: string,
  { cwd, environment }: { readonly cwd: string; readonly environment: NodeJS.ProcessEnv },
  use: (result: { readonly code: number; readonly stdout: string; readonly text: string }) => Promise<A>
): Promise<A> => {
  // a group of its own, which contains the programs in the background; they keep the output open after the shell has ended
  const shell = spawn("bash", ["-e", "-o", "pipefail", "-c", script], { cwd, env: environment, detached: true })
  const closed = once(shell, "close")
  let [stdout, text] = ["", ""]
  shell.stdout.on("data", (chunk) => {
    stdout += chunk
    text += chunk
  })
  shell.stderr.on("data", (chunk) => text += chunk)
  try {
    const [code] = await once(shell, "exit")
    return await use({ code, stdout, text })
  } finally {
    killGroup(shell.pid)
    await closed
  }
}
