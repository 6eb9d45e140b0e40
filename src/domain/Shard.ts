/** Divides the integrations of a store into shards. Each shard has one owner, and its streams are written only by that owner   (I10). */
import * as Arr from "effect/Array"

/** Fixed: all processes of a store must compute the same shard of an integration. */
export const shardCount = 64

const fnvOffset = 0x811c9dc5
const fnvPrime = 0x01000193

/** FNV-1a over UTF-8. Fixed, like `shardCount`. */
const hash = (text: string): number =>
  new TextEncoder().encode(text).reduce((sum, byte) => Math.imul(sum ^ byte, fnvPrime), fnvOffset) >>> 0

const scopeOf = (shard: number): string => `capture/${shard}`

/** The ownership scopes of all shards. */
export const captureScopes = Arr.makeBy(shardCount, scopeOf)

/** The ownership scope of an integration's streams. */
export const captureScopeOf = (integration: string): string => scopeOf(hash(integration) % shardCount)
