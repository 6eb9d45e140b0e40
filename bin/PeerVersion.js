// Which version of a peer dependency is installed beside Rollcall, and whether Rollcall works with it.
import { readFileSync } from "node:fs"
import module from "node:module"

/** The version of a package that files of the folder of `from` import; null if there is none. */
export const installedVersion = (name, from = import.meta.url) => {
  try {
    const manifest = module.createRequire(from).resolve(`${name}/package.json`)
    return JSON.parse(readFileSync(manifest, "utf8")).version
  } catch {
    return null
  }
}

/** `range` is `~1.2.3`: the same minor version, and at least this patch. */
export const satisfies = (version, range) => {
  const [major, minor, patch] = version.split(/[.+-]/).map(Number)
  const [wantedMajor, wantedMinor, wantedPatch] = range.slice(1).split(".").map(Number)
  return major === wantedMajor && minor === wantedMinor && patch >= wantedPatch
}
