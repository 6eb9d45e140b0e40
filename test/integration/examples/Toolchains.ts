/**
 * Installs and builds the programs of `examples` with the package managers of their languages, once per version of their files,
 * into `.cache/examples`.
 */
import { execFile, execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { cp, mkdir, mkdtemp, rename, rm } from "node:fs/promises"
import { delimiter, join } from "node:path"
import { promisify } from "node:util"

const exec = promisify(execFile)
const root = join(import.meta.dirname, "../../..")

/** How to run an example. */
export interface Command {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string>>
}

const answers = (command: string, ...args: ReadonlyArray<string>): boolean => {
  try {
    execFileSync(command, args, { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

const filesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/(^|\/)(target|__pycache__)(\/|$)/.test(entry.parentPath))
    .map(({ name, parentPath }) => join(parentPath, name)).toSorted()

/** Copies the example, builds it there, and keeps the folder; if two processes build at once, the first one wins. */
const built = async (name: string, build: (folder: string) => Promise<unknown>): Promise<string> => {
  const source = join(root, "examples", name)
  const hash = createHash("sha256")
  for (const file of filesIn(source)) hash.update(readFileSync(file))
  const home = join(root, ".cache/examples", `${name}-${hash.digest("hex").slice(0, 12)}`)
  if (existsSync(home)) return home
  await mkdir(join(home, ".."), { recursive: true })
  const folder = await mkdtemp(`${home}-`)
  try {
    for (const file of filesIn(source)) await cp(file, join(folder, file.slice(source.length)))
    await build(folder)
    await rename(folder, home).catch((cause) => {
      if (!existsSync(home)) throw cause
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return home
}

interface Toolchain {
  /** Why the example cannot be built on this machine; null if it can. */
  readonly missing: string | null
  readonly build: () => Promise<Command>
}

const timeout = 280_000

export const toolchains: Readonly<Record<"Python" | "Java" | "Go", Toolchain>> = {
  Python: {
    missing: answers("python3", "-m", "pip", "--version") ? null : "no python3 with pip",
    build: async () => {
      const home = await built("python", (cwd) => {
        const options = ["--quiet", "--disable-pip-version-check", "--no-input", "--target", "packages"]
        return exec("python3", ["-m", "pip", "install", ...options, "--requirement", "requirements.txt"], {
          cwd,
          timeout
        })
      })
      return {
        command: "python3",
        args: [join(home, "mirror.py")],
        environment: { PYTHONPATH: join(home, "packages") }
      }
    }
  },
  Java: {
    missing: answers("mvn", "-version") && answers("javac", "-version") ? null : "no mvn with javac",
    build: async () => {
      const home = await built(
        "java",
        (cwd) =>
          exec("mvn", ["-q", "-B", "compile", "dependency:copy-dependencies", "-DincludeScope=runtime"], {
            cwd,
            timeout
          })
      )
      const classes = [join(home, "target/classes"), join(home, "target/dependency/*")].join(delimiter)
      return { command: "java", args: ["-XX:TieredStopAtLevel=1", "-cp", classes, "Mirror"], environment: {} }
    }
  },
  Go: {
    missing: answers("go", "version") ? null : "no go",
    build: async () => {
      const home = await built("go", (cwd) => exec("go", ["build", "-o", "mirror", "."], { cwd, timeout }))
      return { command: join(home, "mirror"), args: [], environment: {} }
    }
  }
}

if (process.env.CI === "true") {
  for (const [language, { missing }] of Object.entries(toolchains)) {
    if (missing !== null) throw new Error(`the example in ${language} cannot be tested: ${missing}`)
  }
}
