/**
 * Decides which process of a fleet runs what. Each singleton, such as a shard of the streams or the relay, runs in one process, and moves
 * when a process joins, leaves or dies.
 *
 * Gotchas
 * - Correctness never depends on the placement: a process that was frozen believes for a moment that it still has its singletons. Every
 *   commit checks the owner's epoch in its own transaction   (I10).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"

export class Placement extends Context.Service<Placement, {
  /**
   * Registers a singleton until the scope closes. `run` starts when the singleton is placed here, possibly several times in the life of
   * the process. It is interrupted when the singleton moves, and the next process starts only after it has ended.
   * `name`: an ownership scope. Names that end with the same shard number are placed in the same process.
   */
  readonly singleton: (name: string, run: Effect.Effect<never>) => Effect.Effect<void, never, Scope.Scope>
}>()("rollcall/fleet/Placement") {
  /** Runs everything in this process. */
  static readonly local: Layer.Layer<Placement> = Layer.succeed(Placement)({
    singleton: (_, run) => Effect.asVoid(Effect.forkScoped(run))
  })
}
