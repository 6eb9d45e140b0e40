/**
 * Objects that a handler gets and seldom uses.
 *
 * Gotchas
 * - For each object literal with a getter, the engine makes a hidden class that refers to the getter. And it puts a function that is assigned to a
 *   property among the old objects. Both keep everything that they refer to until the next full garbage collection. `HttpClient.makeWith`
 *   assigns such a function, so an attempt makes a client only if its handler uses it.
 */
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"

const make = Symbol("make")

/**
 * Returns a function that makes such an object. Its properties are computed together when one of them is first read. `base` has further
 * properties. `own`: a spread of the object copies its properties; that costs a microsecond for six of them.
 */
export const lazily = <A extends object>(
  names: ReadonlyArray<keyof A>,
  { base = Object.prototype, own = false }: { readonly base?: object; readonly own?: boolean } = {}
): (compute: () => A) => A => {
  const getters = Object.fromEntries(names.map((name) => [name, {
    get(this: { [make]: () => A }) {
      const made = this[make]()
      const known = () => made
      this[make] = known
      return made[name]
    },
    enumerable: true
  }]))
  const prototype: A = Object.create(base, own ? {} : getters)
  return (compute) => {
    const lazy = Object.create(prototype)
    lazy[make] = compute
    return own ? Object.defineProperties(lazy, getters) : lazy
  }
}

export const lazyClient = lazily<HttpClient.HttpClient>(
  ["preprocess", "postprocess", "execute"],
  { base: HttpClient.make(() => Effect.never) }
)
