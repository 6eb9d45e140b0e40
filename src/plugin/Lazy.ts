/** Objects that a handler gets and seldom uses. */

const make = Symbol("make")

/**
 * Returns a function that makes such an object. Its properties are computed together when one of them is first read. `own`: a spread of the
 * object copies them; that costs a microsecond for six properties.
 *
 * Gotchas
 * - All objects share the getters. For each object literal with a getter, the engine creates a hidden class that refers to the getter. Only a
 *   full garbage collection frees it, and everything that the getter refers to.
 */
export const lazily = <A extends object>(
  names: ReadonlyArray<keyof A>,
  { own = false } = {}
): (compute: () => A) => A => {
  const getters = Object.fromEntries(names.map((name) => [name, {
    get(this: { [make]: () => A }) {
      const made = this[make]()
      this[make] = () => made
      return made[name]
    },
    enumerable: true
  }]))
  const prototype: A = Object.create(Object.prototype, own ? {} : getters)
  return (compute) => {
    const lazy = Object.create(prototype)
    lazy[make] = compute
    return own ? Object.defineProperties(lazy, getters) : lazy
  }
}
