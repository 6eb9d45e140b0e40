/**
 * The partition of a key, as Kafka's own clients compute it. It does not depend on the driver: the drivers' own partitioners differ
 * for half of all keys if the number of partitions is not a power of two.
 */

const multiplier = 0x5bd1e995

/** MurmurHash2 (32 bits) with Kafka's seed. */
const murmur2 = (bytes: Uint8Array): number => {
  const { length } = bytes
  const whole = length & ~3
  let hash = 0x9747b28c ^ length
  for (let i = 0; i < whole; i += 4) {
    let word = bytes[i]! | bytes[i + 1]! << 8 | bytes[i + 2]! << 16 | bytes[i + 3]! << 24
    word = Math.imul(word, multiplier)
    word = Math.imul(word ^ word >>> 24, multiplier)
    hash = Math.imul(hash, multiplier) ^ word
  }
  if (length > whole) {
    if (length - whole > 2) hash ^= bytes[whole + 2]! << 16
    if (length - whole > 1) hash ^= bytes[whole + 1]! << 8
    hash = Math.imul(hash ^ bytes[whole]!, multiplier)
  }
  hash = Math.imul(hash ^ hash >>> 13, multiplier)
  return hash ^ hash >>> 15
}

export const partitionOf = (key: string, partitions: number): number =>
  (murmur2(Buffer.from(key)) & 0x7fffffff) % partitions
