/** A plugin that refuses some records, and the state of its deliveries over HTTP. */
import * as Effect from "effect/Effect"
import * as PluginAdmin from "../../../src/delivery/admin/PluginAdmin.ts"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import { Store } from "../../../src/store/Store.ts"
import * as Running from "./Running.ts"

const { ask, stream, write } = Running

/** Fails for good for records whose name starts with a prefix, and handles all others. */
export const picky = (done: Array<string> = [], broken: { is: boolean } = { is: true }) =>
  Plugin.make("picky")
    .on("ats.tag.created", {}, (event) =>
      Effect.gen(function*() {
        done.push(event.recordId)
        if (broken.is && event.recordId.startsWith("bad")) {
          yield* new Plugin.Permanent({ message: "the receiver refuses it" })
        }
      }))
    .on("ats.tag.updated", { as: "changes" }, () => Effect.void)
    .every("1 day", { as: "daily" }, () => Effect.void)
    .with({ from: "oldest" })

/** Waits until every event of the log is delivered, parked or dead. */
export const delivered = Effect.gen(function*() {
  const store = yield* Store
  const { awaitDrained } = yield* PluginAdmin.PluginAdmin
  yield* awaitDrained((yield* store.logRange).newest)
})

/** Three records; the deliveries of two of them are dead letters. */
export const died = Effect.gen(function*() {
  yield* stream({ phase: "live" })
  for (const id of ["good", "bad1", "bad2"]) yield* write(id, `{"name":"s3cret"}`)
  yield* delivered
  return (yield* ask("/v1/deadletters")).body.items.map((letter: { id: number }) => letter.id)
})

export const auditOf = Effect.gen(function*() {
  const { auditLog } = yield* Store
  return (yield* auditLog(100)).map(({ command, detail, target }) => `${command} ${target} ${detail}`.trim())
    .toReversed()
})

/** A position without its chain. */
export const unproven = (position: string): string => position.split("-").slice(0, 3).join("-")
