/**
 * Seeded random numbers, and the ids made from them. They are the only source of variety in the sandbox, so one seed gives one world.
 *
 * Invariants
 * 1. The same seed gives the same draws in the same order; no clock and no global randomness is used.
 * 2. `idOf` is injective in `serial` for one model of one integration.
 *
 * Gotchas
 * - Every fifth serial has the same id in every model, every tenth in every integration too. Ids of this API are
 *   unique only within a model (failure case L6), so tests against the sandbox expose a client that assumes more.
 */

/** 32-bit hash of a text: FNV-1a, then mixed so that similar texts give very different numbers. */
export const hash = (text: string): number => {
  let h = 0x811c9dc5
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  return mix(h)
}

const mix = (n: number): number => {
  let h = Math.imul(n ^ (n >>> 16), 0x7feb352d)
  h = Math.imul(h ^ (h >>> 15), 0x846ca68b)
  return (h ^ (h >>> 16)) >>> 0
}

/** A sequence of seeded draws. */
export class SeededRandom {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** In [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0
    return mix(this.#state) / 0x1_0000_0000
  }

  /** A whole number in [from, to]. */
  int(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1))
  }

  /** True with this probability. */
  boolean(probability: number): boolean {
    return this.next() < probability
  }

  pick<A>(list: ReadonlyArray<A>): A {
    return list[Math.floor(this.next() * list.length)] as A
  }

  /** An entry that fits, searched from a random index on; undefined if no entry fits. */
  pickWhere<A>(list: ReadonlyArray<A>, fits: (a: A) => boolean): A | undefined {
    const from = Math.floor(this.next() * list.length)
    for (let i = 0; i < list.length; i++) {
      const entry = list[(from + i) % list.length] as A
      if (fits(entry)) return entry
    }
    return undefined
  }

  /** A random index, weighted. */
  weightedIndex(weights: ReadonlyArray<number>): number {
    let left = this.next() * weights.reduce((sum, weight) => sum + weight, 0)
    for (let i = 0; i < weights.length; i++) {
      left -= weights[i] as number
      if (left < 0) return i
    }
    return weights.length - 1
  }

  /** A new order of the same entries. */
  shuffled<A>(list: ReadonlyArray<A>): Array<A> {
    const result = [...list]
    for (let i = result.length - 1; i > 0; i--) {
      const j = this.int(0, i)
      const swap = result[i] as A
      result[i] = result[j] as A
      result[j] = swap
    }
    return result
  }

  /** Waiting time until the next event, for events at `rate` per unit; infinite at rate 0. */
  exponential(rate: number): number {
    return rate > 0 ? -Math.log(1 - this.next()) / rate : Infinity
  }
}

const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
const suffixes = alphabet.length ** 6
const stride = 1_000_000_007

/** The API's id of the record with this serial: 24 characters of base58. */
export const idOf = (seed: number, integration: string, model: string, serial: number): string => {
  const space = serial % 10 === 0 ? "" : serial % 5 === 0 ? integration : `${integration}/${model}`
  const random = new SeededRandom(hash(`${seed}/${space}/${serial}`))
  let id = ""
  for (let i = 0; i < 18; i++) id += alphabet[random.int(0, alphabet.length - 1)]
  let rest = (serial * stride) % suffixes
  for (let i = 0; i < 6; i++) {
    id += alphabet[rest % alphabet.length]
    rest = Math.floor(rest / alphabet.length)
  }
  return id
}
