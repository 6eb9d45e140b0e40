/**
 * Divides the integrations of a store into shards. Each shard has one owner for its streams and one for its deliveries. Only the owner of
 * the streams writes streams, and only the owner of the deliveries writes deliveries   (I10).
 */
import * as Arr from "effect/Array"

/** Fixed: all processes of a store must compute the same shard of an integration. */
export const shardCount = 64

const fnvOffset = 0x811c9dc5
const fnvPrime = 0x01000193

const encoder = new TextEncoder()

/** FNV-1a over UTF-8. Fixed, like `shardCount`. */
const hash = (text: string): number => {
  let sum = fnvOffset
  for (const byte of encoder.encode(text)) sum = Math.imul(sum ^ byte, fnvPrime)
  return sum >>> 0
}

export const shardOf = (integration: string): number => hash(integration) % shardCount

const scopeOf = (shard: number): string => `capture/${shard}`

/** The ownership scopes of all shards. */
export const captureScopes = Arr.makeBy(shardCount, scopeOf)

/** The ownership scope of an integration's streams. */
export const captureScopeOf = (integration: string): string => scopeOf(shardOf(integration))

/** The ownership scope of dispatching: its owner creates the deliveries of all shards from events and ticks. */
export const dispatchScope = "delivery"

/** The ownership scope of a shard's deliveries. Its owner runs the handlers. */
export const deliveryScopeOf = (shard: number): string => `${dispatchScope}/${shard}`

export const deliveryScopes = Arr.makeBy(shardCount, deliveryScopeOf)

/** The shard of a scope of deliveries. */
export const shardOfScope = (scope: string): number => Number(scope.slice(dispatchScope.length + 1))
