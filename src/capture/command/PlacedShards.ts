/**
 * Takes and hands over shards as the placement moves them between the processes of a fleet. `fleet/Placement.ts` explains the verbs.
 *
 * Invariants
 * 1. A shard is handed over before its singleton ends. So the next process takes the shard only when this one no longer reads its streams
 * 2. Commands are executed for a shard only while its streams are read
 *
 * Gotchas
 * - Shards that arrive together are taken together: a process that starts alone takes all of them in one transaction.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { captureScopes } from "../../domain/Shard.ts"
import { Placement } from "../../fleet/Placement.ts"
import { retryWhileStoreUnavailable } from "../../store/Recovery.ts"
import type { StoreError } from "../../store/Store.ts"
import { Forgetting } from "../forget/Forgetting.ts"
import { Capture } from "../schedule/Capture.ts"
import { Integrations } from "../schedule/Integrations.ts"
import { Commands } from "./Commands.ts"

/** How long to wait for further shards: the shards of a starting process arrive one by one. */
const arrival = "20 millis"

/** Maximum time until the placement notices that another process has taken over a shard. */
const movePatience = "2 seconds"

/** The shard was taken over while this process took it. The error has the epoch 0 if this process may no longer take over anything. */
const isTakenOver = ({ reason }: StoreError): boolean => reason._tag === "Fenced" && reason.epoch > 0

/** Runs until interrupted, and fails if a shard cannot be taken although the store answers. */
export const run: Effect.Effect<never, StoreError, Capture | Commands | Forgetting | Integrations | Placement> = Effect
  .scoped(
    Effect.gen(function*() {
      const capture = yield* Capture
      const commands = yield* Commands
      const forgetting = yield* Forgetting
      const integrations = yield* Integrations
      const placement = yield* Placement
      const lock = yield* Semaphore.make(1)
      const changed = yield* Latch.make(false)
      /** The shards that are placed here now. */
      const placed = new Set<string>()
      /** The shards that this process has started to take and has not handed over. */
      const taken = new Set<string>()
      /** The taken shards whose streams are read. Their commands are executed until the scope closes. */
      const read = new Map<string, Scope.Closeable>()

      const serve = Effect.fnUntraced(function*(shard: string) {
        const scope = yield* Scope.make()
        read.set(shard, scope)
        yield* Scope.provide(commands.serve(shard), scope)
      })
      /** Returns whether the shard's streams were read. */
      const stopServing = Effect.fnUntraced(function*(shard: string) {
        const scope = read.get(shard)
        read.delete(shard)
        if (scope !== undefined) yield* Scope.close(scope, Exit.void)
        return scope !== undefined
      })

      const handOverMoved = Effect.gen(function*() {
        const moved = new Set([...taken].filter((scope) => !placed.has(scope)))
        if (moved.size === 0) return
        yield* Effect.forEach(moved, stopServing, { concurrency: "unbounded", discard: true })
        yield* capture.handOver(moved)
        for (const scope of moved) taken.delete(scope)
        yield* Effect.annotateLogs(Effect.logInfo("shards handed over"), { shards: moved.size, left: read.size })
      }).pipe(lock.withPermit, Effect.uninterruptible)

      const takeArrived = lock.withPermit(Effect.gen(function*() {
        const arrived = [...placed].filter((scope) => !read.has(scope))
        if (!Arr.isReadonlyArrayNonEmpty(arrived)) return
        const scopes = new Set(arrived)
        for (const scope of scopes) taken.add(scope)
        yield* capture.take(arrived)
        yield* integrations.resume(scopes)
        yield* forgetting.resume(scopes)
        yield* Effect.forEach(scopes, serve, { discard: true })
        yield* Effect.annotateLogs(Effect.logInfo("shards taken"), { shards: scopes.size, now: read.size })
      }))

      for (const scope of captureScopes) {
        const arrive = Effect.andThen(Effect.sync(() => placed.add(scope)), changed.open)
        // shards that move together are handed over together
        const moveAway = Effect.sync(() => placed.delete(scope)).pipe(
          Effect.andThen(Effect.yieldNow),
          Effect.andThen(handOverMoved)
        )
        yield* placement.singleton(scope, Effect.acquireUseRelease(arrive, () => Effect.never, () => moveAway))
      }

      /** Takes a shard again if another process has taken it over although the shard is placed here. */
      const takeLost = Effect.flatMap(capture.awaitLost, stopServing).pipe(
        Effect.flatMap((wasRead) => wasRead ? changed.open : Effect.void)
      )
      yield* Effect.forkScoped(Effect.forever(takeLost))

      return yield* changed.await.pipe(
        Effect.andThen(Effect.sleep(arrival)),
        Effect.andThen(changed.close),
        Effect.andThen(retryWhileStoreUnavailable(takeArrived)),
        Effect.catch((error) =>
          isTakenOver(error) ? Effect.andThen(Effect.sleep(movePatience), changed.open) : Effect.fail(error)
        ),
        Effect.forever
      )
    })
  )
