/**
 * Installs Python packages into a folder of this project, once for each list of pins and Python version.
 */
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { basename } from "node:path"
import { promisify } from "node:util"
import { cachedFolder } from "./CachedFolder.ts"

const exec = promisify(execFile)

/** The folder with the packages that a requirements file pins, for `PYTHONPATH`. Needs Python 3 with pip. */
export const installedPackages = async (pins: string): Promise<string> => {
  const name = basename(pins, ".txt")
  const python = await exec("python3", ["-c", "import pip, sys; print(sys.implementation.cache_tag)"]).catch(
    (cause) => {
      throw new Error(`${name} needs python3 with pip: \`apt-get install python3 python3-pip\``, { cause })
    }
  )
  const version = createHash("sha256").update(readFileSync(pins)).digest("hex").slice(0, 12)
  const quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
  return cachedFolder(
    `${name}/${python.stdout.trim()}-${version}`,
    (folder) =>
      exec("python3", ["-m", "pip", "install", ...quiet, "--target", folder, "--requirement", pins], {
        timeout: 200_000
      })
        .catch((cause) => {
          throw new Error(`pip could not install ${name} from PyPI`, { cause })
        })
  )
}
