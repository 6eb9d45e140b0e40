/** Space on the disk of the store. With PostgreSQL the disk belongs to the database server, and nothing is known about it. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { statfs } from "node:fs/promises"

export interface DiskSpace {
  readonly freeBytes: number
  readonly totalBytes: number
}

/** A disk that does not respond, such as a network disk, must not delay the response. */
const patience = Duration.millis(500)

/** Reads the space of the file system of a folder. */
type Read = (folder: string) => Promise<{ readonly bavail: number; readonly blocks: number; readonly bsize: number }>

/** `folder`: where the store is; null if it is not on this machine. Returns null if the space is not known. */
export const diskSpaceOf = (folder: string | null, read: Read = statfs): Effect.Effect<DiskSpace | null> =>
  folder === null ? Effect.succeed(null) : Effect.promise(() =>
    read(folder).then(
      ({ bavail, blocks, bsize }) => ({ freeBytes: bavail * bsize, totalBytes: blocks * bsize }),
      () => null
    )
  ).pipe(Effect.timeoutOption(patience), Effect.map(Option.getOrNull))
