/**
 * Places the singletons of a fleet among the living processes of a world, and moves them when a process joins, leaves, dies or freezes.
 *
 * Gotchas
 * - A process that freezes is not really stopped: it continues for a while as if it still had its singletons, beside the process that took
 *   them over. That is harder for the service, because the late process does as much as it can.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { Placement } from "../../../src/fleet/Placement.ts"
import { hash } from "../../../src/sandbox/world/SeededRandom.ts"
import type { VirtualTime } from "../world/VirtualTime.ts"
import type { RunningProcess } from "./ProcessObserver.ts"

/** Time until the locks of a process that died or froze are free, in ms. */
const lockExpiry = 5_000
/** Time until the placement notices a process that joined or left, in ms. */
const noticeTime = 500

interface Member {
  readonly process: RunningProcess
  readonly registered: Map<string, Effect.Effect<never>>
  /** The singletons that run here, or are being stopped. */
  readonly running: Map<string, Fiber.Fiber<never>>
  /** ms: until then it counts as dead, but does not know. */
  frozenUntil: number
  /** False once it has left the placement although it lives. */
  takesPart: boolean
}

export class SimulatedPlacement {
  readonly #time: VirtualTime
  #members: ReadonlyArray<Member> = []
  /** The process that has the singleton, by name. */
  readonly #homes = new Map<string, Member>()
  readonly #moving = new Set<string>()
  /** Raised to move singletons although no process joined or left. */
  #round = 0

  constructor(time: VirtualTime) {
    this.#time = time
  }

  /** The placement as the process sees it. */
  of(process: RunningProcess): Placement["Service"] {
    const member: Member = { process, registered: new Map(), running: new Map(), frozenUntil: 0, takesPart: true }
    this.#members = [...this.#members, member]
    return {
      singleton: (name, run) =>
        Effect.acquireRelease(
          Effect.sync(() => {
            member.registered.set(name, run)
            this.#rebalanceAfter(noticeTime)
          }),
          () =>
            Effect.suspend(() => {
              member.registered.delete(name)
              this.#rebalanceAfter(noticeTime)
              return this.#stop(name, member)
            })
        )
    }
  }

  /** Called when the process was killed. */
  died(process: RunningProcess): void {
    this.#members = this.#members.filter((member) => member.process !== process)
    this.#rebalanceAfter(lockExpiry)
  }

  /** The process loses its singletons, and notices that only after `duration` ms. */
  freeze(process: RunningProcess, duration: number): void {
    const member = this.#members.find((one) => one.process === process)
    if (member === undefined) return
    member.frozenUntil = this.#time.now + duration
    this.#rebalanceAfter(lockExpiry)
    this.#rebalanceAfter(duration + noticeTime)
  }

  /** Keeps the process in the placement until interrupted; then it hands over all of its singletons. */
  takePart(process: RunningProcess): Effect.Effect<never> {
    const set = (takesPart: boolean) =>
      Effect.sync(() => {
        const member = this.#members.find((one) => one.process === process)
        if (member === undefined || member.takesPart === takesPart) return
        member.takesPart = takesPart
        this.#rebalanceAfter(takesPart ? noticeTime : 0)
      })
    return Effect.acquireUseRelease(set(true), () => Effect.never, () => set(false))
  }

  /** Whether the process knows what happens, and since when, in ms. */
  awakeSince(process: RunningProcess): number | null {
    const member = this.#members.find((one) => one.process === process)
    return member === undefined || this.#time.now < member.frozenUntil ? null : member.frozenUntil
  }

  /** Whether the process runs a singleton. */
  works(process: RunningProcess): boolean {
    return this.#members.some((member) =>
      member.process === process && [...member.running.values()].some((fiber) => fiber.pollUnsafe() === undefined)
    )
  }

  /** Moves about half of the singletons if there are two processes. */
  move(): void {
    this.#round++
    this.#rebalance()
  }

  #fork(effect: Effect.Effect<unknown>): void {
    Effect.runFork(effect, { scheduler: this.#time })
  }

  #rebalanceAfter(delay: number): void {
    this.#fork(Effect.andThen(this.#time.sleep(delay), Effect.sync(() => this.#rebalance())))
  }

  #rebalance(): void {
    const isAwake = ({ frozenUntil }: Member) => this.#time.now >= frozenUntil
    const isCandidate = (member: Member) => isAwake(member) && member.takesPart
    for (const name of new Set(this.#members.flatMap(({ registered }) => [...registered.keys()]))) {
      if (this.#moving.has(name)) continue
      const candidates = this.#members.filter((member) => member.registered.has(name) && isCandidate(member))
      const target = candidates[hash(`${name} ${this.#round}`) % candidates.length]
      const home = this.#homes.get(name)
      if (target === undefined || (home === target && target.running.has(name))) continue
      this.#moving.add(name)
      const isDown = home === undefined || !this.#members.includes(home) || !isAwake(home)
      // the locks of a process that does not stop expire
      const stopped = isDown ? Effect.void : Effect.raceFirst(this.#stop(name, home), this.#time.sleep(lockExpiry))
      this.#fork(stopped.pipe(
        Effect.andThen(Effect.raceFirst(this.#stop(name, target), this.#time.sleep(lockExpiry))),
        Effect.andThen(Effect.sync(() => this.#start(name, target)))
      ))
    }
    // a process that was frozen notices what it has lost
    for (const member of this.#members.filter(isAwake)) {
      for (const name of member.running.keys()) {
        const isLost = this.#homes.get(name) !== member || !member.takesPart
        if (isLost && !this.#moving.has(name)) this.#fork(this.#stop(name, member))
      }
    }
  }

  #start(name: string, member: Member): void {
    this.#moving.delete(name)
    const run = member.registered.get(name)
    const isMember = this.#members.includes(member) && member.takesPart
    if (run === undefined || !isMember) return this.#rebalanceAfter(noticeTime)
    this.#homes.set(name, member)
    const { process } = member
    member.running.set(name, Effect.runFork(process.within(process.whileAlive(run)), { scheduler: this.#time }))
  }

  #stop(name: string, { running }: Member): Effect.Effect<void> {
    return Effect.suspend(() => {
      const fiber = running.get(name)
      if (fiber === undefined) return Effect.void
      return Effect.andThen(
        Fiber.interrupt(fiber),
        Effect.sync(() => {
          if (running.get(name) === fiber) running.delete(name)
        })
      )
    })
  }
}
