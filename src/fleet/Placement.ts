/**
 * Decides which process of a fleet runs what. Each singleton, such as a shard of the streams or the relay, runs in one process, and moves
 * when a process joins, leaves or dies.
 *
 * Details
 * A singleton runs the work of one ownership scope. Capture, delivery and relay use these words for what a process does with a scope, and for
 * the state of the scope in that process. A scope that is `placed` here is not taken yet.
 *
 * | verb       | when                                             | running work                                        | then    |
 * | ---------- | ------------------------------------------------ | --------------------------------------------------- | ------- |
 * | take       | the placement starts the singleton here          | starts                                              | owned   |
 * | hand over  | the placement moves the singleton, or the        | Nothing more starts. Attempts may end, and their    | leaving |
 * |            | process stops                                    | results are committed. Reading and publishing are   |         |
 * |            |                                                  | interrupted, and continue in the next process.      |         |
 * | interrupt  | a handover lasts too long (`PlacedScopes.ts`)    | Attempts are interrupted, and their deliveries are  | leaving |
 * |            |                                                  | released: another attempt follows.                  |         |
 * | lose       | a commit is fenced, because another process took | stops, and commits nothing                          | lost    |
 * |            | the scope; or interrupted work does not end in   |                                                     |         |
 * |            | time, so that another process may take the scope |                                                     |         |
 * | take again | a lost scope is still placed here seconds later  | starts                                              | owned   |
 *
 * Gotchas
 * - Correctness never depends on the placement: a process that was frozen still runs its singletons for a moment, although they have
 *   moved. Every commit checks the owner's epoch in its own transaction   (I10).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"

/**
 * Registers a singleton until the scope closes. `run` starts when the singleton is placed here, possibly several times in the life of
 * the process. It is interrupted when the singleton moves, and the next process starts only after it has ended.
 * `name`: an ownership scope. Names that end with the same shard number are placed in the same process.
 */
export type RegisterSingleton = (name: string, run: Effect.Effect<never>) => Effect.Effect<void, never, Scope.Scope>

interface Entry {
  readonly name: string
  readonly run: Effect.Effect<never>
  /** The singleton is registered until this scope closes. */
  readonly scope: Scope.Scope
}

/**
 * Attaches an engine that decides where singletons run. The engine starts after the singletons are registered, and stops before
 * they are removed.
 */
export class PlacementEngine extends Context.Service<PlacementEngine, {
  readonly attach: (register: RegisterSingleton) => Effect.Effect<void, never, Scope.Scope>
  /** Opened by the engine once this process has its share of the work: only then is the process ready. It stays open. */
  readonly joined: Latch.Latch
}>()("rollcall/fleet/PlacementEngine") {}

const makeRegistry = () => {
  const entries = new Set<Entry>()
  let attached: RegisterSingleton | null = null

  const singleton: RegisterSingleton = Effect.fnUntraced(function*(name, run) {
    const entry = { name, run, scope: yield* Effect.scope }
    yield* Effect.acquireRelease(
      Effect.sync(() => entries.add(entry)),
      () => Effect.sync(() => entries.delete(entry))
    )
    if (attached !== null) yield* attached(name, run)
  })

  const attach: PlacementEngine["Service"]["attach"] = Effect.fnUntraced(function*(register) {
    const set = (value: RegisterSingleton | null) => Effect.sync(() => void (attached = value))
    yield* Effect.acquireRelease(set(register), () => set(null))
    for (const { name, run, scope } of entries) yield* Scope.provide(register(name, run), scope)
  })

  return { singleton, attach }
}

export class Placement extends Context.Service<Placement, {
  readonly singleton: RegisterSingleton
}>()("rollcall/fleet/Placement") {
  /** Runs all singletons in this process. */
  static readonly local: Layer.Layer<Placement | PlacementEngine> = Layer.effectContext(
    Effect.sync(() =>
      Context.make(PlacementEngine, { attach: () => Effect.void, joined: Latch.makeUnsafe(true) }).pipe(
        Context.add(Placement, { singleton: (_, run) => Effect.asVoid(Effect.forkScoped(run)) })
      )
    )
  )

  /** Runs no singleton until an engine is attached. */
  static readonly layer: Layer.Layer<Placement | PlacementEngine> = Layer.effectContext(Effect.sync(() => {
    const { attach, singleton } = makeRegistry()
    return Context.make(PlacementEngine, { attach, joined: Latch.makeUnsafe(false) }).pipe(
      Context.add(Placement, { singleton })
    )
  }))
}
