/** Writes samples of the last minutes into a store, so that the plots of its console have a past. */
import { DatabaseSync } from "node:sqlite"

export type Sample = Readonly<
  Record<
    | "median"
    | "p95"
    | "worst"
    | "events"
    | "unpublished"
    | "deliveries"
    | "deadLetters"
    | "late"
    | "blocked"
    | "failing"
    | "holds",
    number
  >
>

/** `sampleOf`: the sample of so many minutes ago. */
export const writeSamples = (file: string, minutes: number, sampleOf: (ago: number) => Sample): void => {
  const store = new DatabaseSync(file)
  // after its first minute the process has added newer samples
  store.exec("DELETE FROM history")
  const add = store.prepare("INSERT INTO history (slot, at, sample) VALUES (?, ?, ?)")
  const minute = Math.floor(Date.now() / 60_000)
  for (let ago = minutes; ago > 0; ago--) {
    add.run((minute - ago) % 1_440, (minute - ago) * 60_000, JSON.stringify(sampleOf(ago)))
  }
  store.close()
}
