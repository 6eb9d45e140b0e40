/** Installs npm packages into a folder of this project, once for each list of pins. They are not dependencies of the project. */
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { basename } from "node:path"
import { promisify } from "node:util"
import { cachedFolder } from "./CachedFolder.ts"

const exec = promisify(execFile)

/** The `node_modules` with the packages of a list, one `name@version` a line. */
export const installedModules = async (pins: string): Promise<string> => {
  const text = readFileSync(pins, "utf8")
  const name = basename(pins, ".txt")
  const version = createHash("sha256").update(text).digest("hex").slice(0, 12)
  const packages = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"))
  const options = ["--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
  const home = await cachedFolder(
    `${name}/${version}`,
    (folder) =>
      exec("npm", ["install", "--prefix", folder, ...options, ...packages], { timeout: 200_000 }).catch((cause) => {
        throw new Error(`npm could not install ${name}`, { cause })
      })
  )
  return `${home}/node_modules`
}
