/** Objects that a handler gets and seldom uses. */

const make = Symbol("make")

/**
 * Returns a function that makes such an object. Its properties are computed together when one of them is first read.
 *
 * Gotchas
 * - The getters are in a prototype. For each object literal with a getter, the engine creates a hidden class that refers to the getter. Only a full garbage
 *   collection frees it, and everything that the getter refers to.
 */
export const lazily = <A extends object>(names: ReadonlyArray<keyof A>): (compute: () => A) => A => {
  const prototype: A = Object.create(Object.prototype)
  for (const name of names) {
    Object.defineProperty(prototype, name, {
      get(this: { [make]: () => A }) {
        const made = this[make]()
        this[make] = () => made
        return made[name]
      },
      enumerable: true
    })
  }
  return (compute) => {
    const lazy = Object.create(prototype)
    lazy[make] = compute
    return lazy
  }
}
