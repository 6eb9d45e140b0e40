/**
 * Generates a plan from a seed. Every world has its own weights: one is full of deletes, another of broken pages, a
 * third of dying processes.
 */
import { hash, SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import {
  type FaultKind,
  faults,
  type Mutation,
  type MutationKind,
  mutations,
  type Plan,
  type Step,
  type Trouble,
  type TroubleKind,
  troubles,
  type WorldSettings
} from "./Plan.ts"
import { replacing, varied } from "./Variations.ts"

const minute = 60_000

const availableStreams: WorldSettings["streams"] = [
  { integration: "greenhouse:acme", model: "ats.application" },
  { integration: "greenhouse:acme", model: "ats.tag" },
  { integration: "workday:acme", model: "hris.skill" }
]

/** Mostly small, sometimes ten times as large, so that a few kinds dominate each world. */
const weights = (random: SeededRandom, count: number): ReadonlyArray<number> =>
  Array.from({ length: count }, () => random.next() ** 3 * 10 + 0.05)

/** Weights of kinds: those that would end too many worlds early are rare. */
const rarity: Partial<Record<MutationKind | FaultKind | TroubleKind, number>> = {
  modelOff: 0.3,
  flagMany: 0.4,
  vanishMany: 0.4,
  fieldOff: 0.5,
  empty: 0.4,
  edit: 4,
  create: 3,
  outcome: 2,
  flag: 1.5,
  unsupported: 0.2,
  unauthorized: 0.4,
  inactive: 0.4,
  permission: 0.4,
  rival: 0.5,
  storeRestored: 0.8,
  storeLost: 0.3,
  storeFailedOver: 0.8,
  adopt: 0.2
}

const picker = <K extends MutationKind | FaultKind | TroubleKind>(random: SeededRandom, kinds: ReadonlyArray<K>) => {
  const drawn = weights(random, kinds.length).map((weight, index) => weight * (rarity[kinds[index]!] ?? 1))
  return () => kinds[random.weightedIndex(drawn)]!
}

const settingOf = (seed: number, random: SeededRandom, clock: Clock): WorldSettings => {
  const interval = random.int(1, 10) * minute
  const streams = random.shuffled(availableStreams).slice(0, random.int(1, 3))
  const minOverlap = random.int(2, 5) * minute
  const polls = Math.floor(random.int(24, 42) / streams.length)
  return {
    streams,
    candidates: random.boolean(0.5),
    candidateList: null,
    sweepOnly: false,
    records: random.int(3, 14),
    interval,
    sweepInterval: interval * random.int(4, 15),
    confirmInterval: interval * random.int(1, 3),
    minOverlap,
    duration: polls * interval,
    latency: random.pick([400, 400, 8_000, 8_000, 50_000]),
    storeDelay: 0,
    skew: clock === "right" ? 0 : random.int(-15, 15) * minute,
    pageSize: random.int(2, 9),
    slow: null,
    order: random.pick(["toEnd", "toEnd", "toFront", "stable", "shuffled"]),
    inclusive: random.boolean(0.5),
    resolution: random.boolean(0.5) ? 1 : 1000,
    futureDates: new SeededRandom(hash(`future dates ${seed}`)).boolean(0.3),
    plugins: false,
    refusedWrites: null,
    lacksList: null,
    fleet: false,
    keys: false,
    requestSlots: null,
    outage: null,
    epilogue: random.pick(["none", "none", "siblings", "late"])
  }
}

/** Mostly no lag; else less than the overlap of polls, or sometimes so long that only a sweep finds the change (W3). */
const lagOf = (random: SeededRandom, { minOverlap }: WorldSettings): number => {
  if (random.boolean(0.7)) return 0
  return random.boolean(0.8) ? Math.floor(random.next() * (minOverlap - minute)) : random.int(10, 60) * minute
}

/**
 * The number of times that a fault may happen in a row. Five wrong `Date`s in nine responses, or two before there is a history, cannot be
 * distinguished from a server whose clock is really different; then only the sweep helps.
 */
const mostInARow: Partial<Record<FaultKind, number>> = { dateWrong: 1 }

/** The faults of all worlds; the others have random streams of their own, so that the worlds of a seed stay the same. */
const drawnFaults = faults.filter((kind) => kind !== "gatewayPage")

/** Faults that block a stream for longer than a world runs; they happen towards the end. */
const blocking: ReadonlySet<FaultKind> = new Set(["unauthorized", "permission", "unsupported", "inactive"])

/** Faults that may never happen in a world: it may never request ids, and it stops reading once it is blocked. */
const uncertain: ReadonlySet<FaultKind> = new Set([...blocking, "idsIgnored", "idsEmpty", "idsFew"])

/**
 * The state of the service's clock. Without a credible `Date` the service uses its own clock, so in a world with a wrong clock each
 * response has a `Date`. If both were wrong at once, only the overlap and the sweep would help.
 */
type Clock = "right" | "wrong" | "set"
const needsCorrectClock: ReadonlySet<FaultKind> = new Set(["dateMissing", "dateWrong"])

export const planOf = (seed: number): Plan => {
  const random = new SeededRandom(hash(`plan ${seed}`))
  const clock = random.pick<Clock>(["right", "right", "wrong", "set"])
  const setting = settingOf(seed, random, clock)
  const mutation = picker(random, mutations)
  const fault = picker(random, drawnFaults)
  const trouble = picker(random, troubles)
  const at = () => Math.floor(random.next() * setting.duration)
  const stream = () => random.int(0, setting.streams.length - 1)
  const steps: Array<Step> = []
  for (let left = random.int(32, 60); left > 0; left--) {
    const step: Mutation = {
      at: at(),
      mutation: mutation(),
      stream: stream(),
      recordPick: random.next(),
      value: random.next(),
      lag: lagOf(random, setting),
      midway: random.boolean(0.25)
    }
    steps.push(step)
  }
  const kinds = new Set<FaultKind>()
  for (let left = random.int(6, 16); left > 0 || kinds.size < 8; left--) {
    // The first faults must reach a request: they start early, and on any page.
    const certain = kinds.size < 6
    const drawn = (): FaultKind => {
      const kind = fault()
      return (clock !== "right" && needsCorrectClock.has(kind)) || (certain && uncertain.has(kind)) ? drawn() : kind
    }
    const kind = drawn()
    kinds.add(kind)
    steps.push({
      at: blocking.has(kind)
        ? Math.floor((0.6 + 0.4 * random.next()) * setting.duration)
        : certain
        ? Math.floor(at() / 2)
        : at(),
      fault: kind,
      stream: stream(),
      count: Math.min(mostInARow[kind] ?? Infinity, random.boolean(0.7) ? random.int(1, 3) : random.int(3, 12)),
      page: certain || random.boolean(0.5) ? null : random.int(0, 3),
      value: random.next()
    })
  }
  for (let left = random.int(0, 6); left > 0; left--) {
    const step: Trouble = { at: at(), trouble: trouble(), count: random.int(0, 6), value: random.next() }
    if (step.trouble !== "clock" || clock === "set") steps.push(step)
    // A restored store may find the same changes again or not, and a new one never publishes: then an operator has to adopt it.
    if (step.trouble !== "adopt" && replacing.has(step.trouble) && random.boolean(0.6)) {
      steps.push({ ...step, trouble: "adopt", at: step.at + Math.floor(random.next() * (setting.duration - step.at)) })
    }
  }
  return varied({ seed, setting, steps, writes: [], replays: [] })
}
