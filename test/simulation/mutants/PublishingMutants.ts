/** Mutants that own, restore, encrypt or publish the log with one defense less. */
import { type Mutant, mutant } from "./Mutant.ts"

export const publishingMutants: ReadonlyArray<Mutant> = [
  mutant("no-fencing", "a transaction of an older owner fails", [
    "if (Number(row?.epoch) !== owner.epoch) ",
    "if (Number(row?.epoch) < owner.epoch) "
  ]),
  mutant("adoption-keeps-generation", "an adopted store starts a later generation", [
    'to: Math.max(from + 1, Math.floor((now - firstMinute) / Duration.toMillis("1 minute"))),',
    'to: Math.max(from, 0 * Math.floor((now - firstMinute) / Duration.toMillis("1 minute"))),'
  ]),
  mutant("adoption-unreconciled", "records that the sink keeps and an adopted store lacks are removed", [
    "if (identity.generation > 1) yield* reconcile",
    "if (identity.generation < 1) yield* reconcile"
  ]),
  mutant("relay-uncompared", "the sink's checkpoint is compared with the log", [
    "return findGap(position, range) ?? (chain === checkpoint.chain",
    "return findGap(position, range) ?? (chain !== undefined"
  ], [
    "if (position > range.newest) return `the sink holds",
    "if (position < 0) return `the sink holds"
  ], [
    "if (chain !== null && read === last.chain) {",
    "if (read !== undefined) {"
  ], [
    "checkpoint: { position: upTo, chain }, more: newest > upTo",
    'checkpoint: { position: upTo, chain: chain ?? "" }, more: newest > upTo'
  ]),
  mutant("failover-unnoticed", "a running process uses no database that lacks its commits", [
    "if (missing > 0) return yield* Effect.fail",
    "if (missing < 0) return yield* Effect.fail"
  ]),
  mutant("new-store-unnoticed", "a store publishes nothing to topics of another store", [
    "if (published === null || published.store === identity?.store) return null",
    "if (published === null || published.position >= 0) return null"
  ], [
    "yield* findResumePoint({ owner, sink, store }, published)",
    "yield* findResumePoint({ owner, sink, store }, published?.store === identity.store ? published : null)"
  ]),
  mutant("relay-own-position", "the relay continues from the sink's checkpoint", [
    "    return published\n  }\n",
    "    return { position: saved, chain: (yield* store.chains([saved])).chains[0] ?? genesis }\n  }\n"
  ]),
  mutant("two-relays", "a relay publishes only as long as it owns the relay's scope", [
    "    saveReaderPosition: (owner: Owner, reader: string, position: number, published: Publication | null = null) =>\n      fence(owner).pipe(",
    "    saveReaderPosition: (owner: Owner, reader: string, position: number, published: Publication | null = null) =>\n      Effect.when(fence(owner), Effect.succeed(owner.epoch < 0)).pipe("
  ]),
  mutant("unregistered-key", "content has only keys that are registered", [
    "  id === null\n    ? Effect.succeed(false)",
    '  id === null || id !== ""\n    ? Effect.succeed(false)'
  ]),
  mutant("used-key-retired", "a key is retired only if no living process encrypts with it", [
    "if (withOtherKey.length > 0) return null",
    "if (withOtherKey.length < 0) return null"
  ]),
  mutant("work-without-key", "a process that lacks a key hands its work over", [
    "problem = keys.length === 0 ? null",
    "problem = keys.length >= 0 ? null"
  ]),
  mutant("places-lost", "the places of a batch are recorded although its relay died before it could record them", [
    "relayReader, published.position, published.published)",
    "relayReader, published.position)"
  ]),
  mutant("relay-skips-failed", "a failed batch is sent again", [
    "    const places = yield* inSpans(sink.publish(identity, batch, checkpoint))\n",
    "    yield* store.saveReaderPosition(owner, relayReader, checkpoint.position)\n    const places = yield* inSpans(sink.publish(identity, batch, checkpoint))\n"
  ], [
    "    return published\n  }\n",
    "    return { position: saved, chain: (yield* store.chains([saved])).chains[0] ?? genesis }\n  }\n"
  ])
]
