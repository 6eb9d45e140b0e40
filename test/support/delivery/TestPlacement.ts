/** Places the singletons of several processes as a test wants, also in processes that are dead or frozen. */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import { Placement } from "../../../src/fleet/Placement.ts"

/** A process as the placement sees it. */
interface Member {
  readonly runs: Map<string, Effect.Effect<never>>
  readonly fibers: Map<string, Fiber.Fiber<never>>
  /** It does not end its singletons, although others have them. */
  isFrozen: boolean
  /** Returns when it is frozen or dead: the others do not wait for it then. */
  away: Latch.Latch
}

export const make = () => {
  const members = new Map<number, Member>()
  const placed = new Map<string, number>()
  const moves = new Map<string, Semaphore.Semaphore>()

  const oneAtATime = (name: string) => {
    const lock = moves.get(name) ?? Semaphore.makeUnsafe(1)
    moves.set(name, lock)
    return lock.withPermits(1)
  }

  const start = Effect.fnUntraced(function*(id: number, name: string) {
    const member = members.get(id)
    const run = member?.runs.get(name)
    if (member === undefined || run === undefined || member.fibers.has(name)) return
    member.fibers.set(name, yield* Effect.forkDetach(run))
  })
  const end = Effect.fnUntraced(function*(member: Member | undefined, name: string) {
    const fiber = member?.fibers.get(name)
    if (fiber === undefined) return
    yield* Effect.forkDetach(Fiber.interrupt(fiber))
    const hasEnded = Effect.as(Fiber.await(fiber), true)
    const isAway = Effect.as(member?.away.await ?? Effect.never, false)
    if (yield* Effect.raceFirst(hasEnded, isAway)) member?.fibers.delete(name)
  })

  /** Moves a singleton in the background: it ends here before it starts there, unless the process that has it is frozen or dead. */
  const move = (name: string, to: number) =>
    Effect.gen(function*() {
      const from = placed.get(name)
      placed.set(name, to)
      const member = from === undefined ? undefined : members.get(from)
      if (from === to) return
      if (member?.isFrozen === false) yield* end(member, name)
      // a process that was frozen has not ended it yet
      yield* end(members.get(to), name)
      yield* start(to, name)
    }).pipe(oneAtATime(name), Effect.forkDetach)

  return {
    /** Replaces the placement in a process. */
    layer: (id: number): Layer.Layer<Placement> => {
      const member: Member = { runs: new Map(), fibers: new Map(), isFrozen: false, away: Latch.makeUnsafe(false) }
      members.set(id, member)
      return Layer.succeed(Placement)({
        singleton: (name, run) =>
          Effect.suspend(() => {
            member.runs.set(name, run)
            if (!placed.has(name)) placed.set(name, id)
            return placed.get(name) === id ? start(id, name) : Effect.void
          })
      })
    },
    move,
    names: (): ReadonlyArray<string> => [...placed.keys()],
    placeOf: (name: string) => placed.get(name),
    freeze: (id: number) => {
      const member = members.get(id)
      if (member === undefined) return
      member.isFrozen = true
      member.away.openUnsafe()
    },
    /** The process finds out which singletons it has lost, and ends them. */
    thaw: (id: number) =>
      Effect.suspend(() => {
        const member = members.get(id)
        if (member === undefined) return Effect.void
        member.isFrozen = false
        member.away.closeUnsafe()
        const stale = [...member.fibers.keys()].filter((name) => placed.get(name) !== id)
        return Effect.forkDetach(
          Effect.forEach(
            stale,
            (name) => oneAtATime(name)(Effect.suspend(() => placed.get(name) === id ? Effect.void : end(member, name))),
            { concurrency: "unbounded" }
          )
        )
      }),
    remove: (id: number) => {
      members.get(id)?.away.openUnsafe()
      members.delete(id)
    }
  }
}
