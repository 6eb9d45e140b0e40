/** The steps of a plan as actions in the run of its world, in the order of their times. */
import * as Effect from "effect/Effect"
import { adopt, decide, replayDeliveries } from "./Operator.ts"
import type { OracleSnapshot } from "./oracle/Oracle.ts"
import type { Command, Mutation, Step, Trouble } from "./plan/Plan.ts"
import { start, type WorldRun } from "./WorldRun.ts"

const hour = 3_600_000

/** An action at this time, in ms. */
interface DueAction {
  readonly at: number
  readonly action: () => void
}

interface Steps {
  readonly agenda: ReadonlyArray<DueAction>
  /** Applies the steps that wait until a list is read. */
  readonly applyMidway: () => void
  /** Kind → how often it happened: mutations that changed a record; troubles and commands. */
  readonly mutations: Readonly<Record<string, number>>
  readonly troubles: Readonly<Record<string, number>>
}

export const stepsOf = (run: WorldRun): Steps => {
  const { api, keys, oracle, placement, plan, sink, store, time, world } = run
  const { setting } = plan
  const mutations: Record<string, number> = {}
  const troubles: Record<string, number> = {}
  const count = (counts: Record<string, number>, kind: string) => {
    counts[kind] = (counts[kind] ?? 0) + 1
  }
  /** The age of a restored copy, in ms: only a few events happen again, which is the hard case. */
  const age = (value: number) => Math.floor(value ** 2 * Math.min(hour, setting.duration / 3))

  const applyMutation = (step: Mutation, at: number) => {
    // If no record can be restored or blanked, another mutation happens: no step of a world is wasted.
    const applied = ([step.mutation, "edit", "create"] as const).find((mutation) =>
      world.apply({ ...step, mutation }, at, time.now)
    )
    if (applied !== undefined) count(mutations, applied)
  }
  const pick = <A>(all: ReadonlyArray<A>, value: number): A | undefined => all[Math.floor(value * all.length)]
  /** Runs while everything else goes on. */
  const applyCommand = ({ command, value }: Command) => {
    const record = command === "forget" ? pick(world.forgettable, value) : pick(oracle.forgotten, value)
    if (record === undefined) return
    // the owner of the record's stream executes the command
    const owner = run.processes.findLast(({ capture, dead }) => !dead && capture?.owns(record.integration) === true)
    const process = setting.fleet ? owner : run.current
    const forgetting = process?.forgetting ?? null
    if (process === undefined || forgetting === null) return
    count(troubles, command)
    const forget = Effect.flatMap(forgetting.plan(record), ({ hash }) => forgetting.forget(record, hash))
    const executed = command === "forget" ? forget : forgetting.allow(record)
    Effect.runFork(process.within(process.whileAlive(Effect.ignore(executed))), { scheduler: time })
  }

  let midway: Array<Mutation | Command> = []
  const applyMidway = () => {
    const now = midway
    midway = []
    for (const step of now) {
      if ("command" in step) applyCommand(step)
      else applyMutation(step, time.now)
    }
  }
  api.betweenPages = applyMidway

  const applyTrouble = (step: Trouble) => {
    if (step.trouble === "approve" || step.trouble === "reject") {
      if (decide(run, ["open"], step.trouble === "approve" ? "approving" : "rejected")) count(troubles, step.trouble)
      return
    }
    count(troubles, step.trouble)
    run.lastValue = step.value
    switch (step.trouble) {
      case "killBeforeCommit":
        return run.current.store.injectFailure("killBefore", step.count)
      case "killAfterCommit":
        return run.current.store.injectFailure("killAfter", step.count)
      case "killBeforeSend":
        return sink.injectFailure("killBefore", step.count)
      case "killAfterSend":
        return sink.injectFailure("killAfter", step.count)
      case "kill":
        return run.current.kill()
      case "stop":
        run.current.stop()
        run.restartAt ??= time.now + run.downtime(step.value)
        return
      case "rival":
        return run.replaceCurrent()
      case "join":
        return run.launch()
      case "move":
        return placement?.move()
      case "freeze":
        run.current.becomeSilent()
        return placement?.freeze(run.current, 5_000 + Math.floor(step.value * 60_000))
      case "newKey":
        return keys?.change(step.value < 0.5)
      case "replace":
        run.processes.find(({ dead }) => !dead)?.stop()
        return run.replaceCurrent()
      case "storeAway":
        return run.current.store.injectFailure("away", step.count)
      case "storeUnsure":
        return step.value < 0.5
          ? run.current.store.injectFailure("unsure", step.count)
          : run.current.store.loseNextClaim()
      case "sinkAway":
        return sink.injectFailure("away", step.count)
      case "sinkUnsure":
        return sink.injectFailure("unsure", step.count)
      case "storeRestored": {
        const copy = copies.get(step)
        if (copy === undefined) return
        run.keepCopy()
        run.killAll()
        store.restore(copy.file)
        run.restoreOracle(copy.snapshot)
        return
      }
      case "storeLost":
        run.keepCopy()
        run.killAll()
        store.replace()
        oracle.lost(sink.taken, sink.isForeign(store.store.identity))
        return
      case "storeFailedOver": {
        const copy = copies.get(step)
        if (copy === undefined) return
        run.keepCopy()
        oracle.fleet.storeReplaced()
        if (!store.failOver(copy.file)) return
        // later the previous store comes back, or an operator restarts the process over the copy
        run.failover = {
          snapshot: copy.snapshot,
          until: time.now + 4 * setting.interval + run.downtime(step.value),
          restarts: step.count % 2 === 1,
          approved: []
        }
        return
      }
      case "adopt":
        return adopt(run)
      case "clock":
        run.skew = Math.floor((step.value - 0.5) * 480_000)
        return
    }
  }

  /** Copies for later restores, made while the original store was in use. */
  const copies = new Map<Step, { readonly file: string; readonly snapshot: OracleSnapshot }>()

  const applyStep = (step: Step) => {
    if ("fault" in step) return api.addFault(step)
    if ("trouble" in step) return applyTrouble(step)
    if (step.midway) midway.push(step)
    else if ("command" in step) applyCommand(step)
    else applyMutation(step, start + step.at)
  }

  const copyFor = (step: Trouble) => () => {
    if (run.failover !== null) return
    const snapshot = oracle.snapshot()
    if (snapshot !== null) copies.set(step, { file: store.copy(), snapshot })
  }
  /** The steps by time: a mutation with a lag happens to the API when it becomes visible. */
  const agenda = plan.steps.flatMap((step) => {
    const at = start + step.at
    const action = { at: at + ("mutation" in step && !step.midway ? step.lag : 0), action: () => applyStep(step) }
    if (!("trouble" in step) || (step.trouble !== "storeRestored" && step.trouble !== "storeFailedOver")) {
      return [action]
    }
    const isCurrentCopy = step.trouble === "storeFailedOver" && step.count % 3 === 0
    return [{ at: isCurrentCopy ? at : at - age(step.value), action: copyFor(step) }, action]
  }).concat(plan.replays.map((again) => ({ at: start + again.at, action: () => replayDeliveries(run, again) })))
    .sort((a, b) => a.at - b.at)
  return { agenda, applyMidway, mutations, troubles }
}
