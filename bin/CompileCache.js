// Keeps compiled code between runs, because compiling takes half of the start-up time. Node executes what it finds in the
// cache, so a user who can write there runs code as this user. Node's default is below the temporary directory, which all
// users share; this module uses a directory that only this user can open, or no cache.
import { lstatSync, mkdirSync, realpathSync } from "node:fs"
import module from "node:module"
import { homedir } from "node:os"
import { dirname, isAbsolute, join } from "node:path"

/** Where programs keep what they can make again: XDG_CACHE_HOME, whose relative values count as missing, or ~/.cache. */
const cacheHome = () => {
  const { XDG_CACHE_HOME = "" } = process.env
  return isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : join(homedir(), ".cache")
}

const withAncestors = (path) => path === dirname(path) ? [path] : [path, ...withAncestors(dirname(path))]

/** Whether only this user and root can replace entries on the way to `path`. In a sticky directory others cannot. */
const isTrusted = (path, uid) =>
  withAncestors(realpathSync(path)).map((each) => lstatSync(each)).every(({ mode, uid: owner }) =>
    (owner === uid || owner === 0) && ((mode & 0o022) === 0 || (mode & 0o1000) !== 0)
  )

/** `<base>/rollcall`, which is created if it is missing; undefined if another user could write to it or exchange it. */
export const privateDirectory = (base, uid) => {
  try {
    mkdirSync(base, { recursive: true, mode: 0o700 })
    // afterwards, when no other user can exchange a directory between this check and the next line
    if (!isTrusted(base, uid)) return undefined
    const directory = join(realpathSync(base), "rollcall")
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const found = lstatSync(directory)
    return found.isDirectory() && found.uid === uid && (found.mode & 0o077) === 0 ? directory : undefined
  } catch {
    return undefined
  }
}

/** Does nothing on Windows, and if NODE_COMPILE_CACHE or NODE_DISABLE_COMPILE_CACHE is set: Node has obeyed it by now. */
export const enable = () => {
  if (process.getuid === undefined || process.env.NODE_COMPILE_CACHE || process.env.NODE_DISABLE_COMPILE_CACHE) return
  let directory
  try {
    directory = privateDirectory(cacheHome(), process.getuid())
  } catch {
    return // this user has no home directory
  }
  if (directory !== undefined) module.enableCompileCache(directory)
}
