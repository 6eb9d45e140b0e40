/**
 * The permissions of database files: new files are readable by their owner only, and the permissions of existing files are checked.
 *
 * Details
 * SQLite gives `-wal` and `-shm` the permissions of the database, whatever the umask is.
 *
 * Gotchas
 * - The thread of a SQLite connection loads this module: import only Node's modules here.
 */
import { closeSync, existsSync, fchmodSync, fstatSync, lstatSync, openSync, realpathSync, statSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"

const ownerOnly = 0o600

/** SQLite's result code for a file that it cannot open. */
const cannotOpen = 14

/** Whether there is a symbolic link at the path, but no file behind it. */
export const isDanglingLink = (file: string): boolean => {
  try {
    return lstatSync(file).isSymbolicLink() && !existsSync(file)
  } catch {
    return false
  }
}

/**
 * Creates an empty database file, unless the file exists. Throws SQLite's error if it cannot. It also refuses a symbolic link to
 * nothing: another user may have made the link to choose where the data is written.
 */
export const createIfMissing = (file: string): void => {
  let descriptor: number
  try {
    descriptor = openSync(file, "wx", ownerOnly)
  } catch (cause) {
    const exists = cause instanceof Error && "code" in cause && cause.code === "EEXIST"
    if (exists && !isDanglingLink(file)) return
    throw Object.assign(new Error("the file cannot be created", { cause }), { errcode: cannotOpen })
  }
  try {
    // the umask may have removed permissions of the owner
    if ((fstatSync(descriptor).mode & 0o777) !== ownerOnly) fchmodSync(descriptor, ownerOnly)
  } catch {
    // the file system has no permissions; `findExposed` reports what other users may do
  } finally {
    closeSync(descriptor)
  }
}

interface Exposed {
  /** `/data/rollcall.db can be read by other users (mode 644)` */
  readonly message: string
  readonly hint: string
}

const modeOf = (path: string): number => statSync(path).mode & 0o7777
const octal = (mode: number): string => mode.toString(8).padStart(3, "0")

const exposedFiles = (file: string): ReadonlyArray<Exposed> => {
  const wide = ["", "-wal", "-shm", "-journal"].map((suffix) => `${file}${suffix}`)
    .filter((path) => existsSync(path) && (modeOf(path) & 0o077) !== 0)
  const [first] = wide
  if (first === undefined) return []
  const mode = modeOf(first)
  return [{
    message: `${wide.join(", ")} can be ${(mode & 0o022) === 0 ? "read" : "changed"} by other users (mode ${
      octal(mode)
    })`,
    hint: `Run: chmod 600 ${wide.join(" ")}`
  }]
}

const parentsOf = (path: string): ReadonlyArray<string> => {
  const parent = dirname(path)
  return parent === path ? [] : [parent, ...parentsOf(parent)]
}

/** In a folder with the sticky bit (`/tmp`), users cannot replace each other's files, but anyone can create the file first. */
const isSticky = (folder: string): boolean => (modeOf(folder) & 0o1000) !== 0

const isOpen = (folder: string, isParent: boolean): boolean =>
  (modeOf(folder) & 0o022) !== 0 && (isParent || !isSticky(folder))

const exposedFolders = (files: ReadonlyArray<string>): ReadonlyArray<Exposed> => {
  const folders = files.flatMap((file) => parentsOf(file).filter((folder, index) => isOpen(folder, index === 0)))
  return [...new Set(folders)].map((folder) => ({
    message: `other users can write to the directory ${folder} (mode ${
      octal(modeOf(folder))
    }), and so put another database in place of the store`,
    hint: isSticky(folder)
      ? "Move the store to a directory of its own, because this one is shared on purpose"
      : `Run: chmod go-w ${folder}; or move the store to a directory of its own`
  }))
}

/** Permissions that let other users of this machine read, change or replace the database. */
export const findExposed = (file: string): ReadonlyArray<Exposed> => {
  const own = resolve(file)
  const folder = dirname(own)
  // file systems of Windows have no such permissions
  if (process.getuid === undefined || !existsSync(folder)) return []
  const path = join(realpathSync(folder), basename(own))
  if (!existsSync(path)) return exposedFolders([path])
  const target = realpathSync(path)
  return [...exposedFiles(target), ...exposedFolders([path, target])]
}
