/**
 * The kinds of worlds: each function gives some of the plans further steps and settings. Each has a random stream of its own, so that
 * a new kind leaves the worlds of a seed as they were otherwise.
 */
import { hash, SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import {
  type Command,
  type Fault,
  fleetTroubles,
  type Mutation,
  type Plan,
  type Step,
  type Trouble,
  type TroubleKind,
  type WorldSettings,
  writeFaults,
  writeRefusals
} from "./Plan.ts"

const minute = 60_000

/** After these troubles the store is another one, or must be treated as one. */
export const replacing: ReadonlySet<TroubleKind> = new Set(["storeRestored", "storeLost", "storeFailedOver", "adopt"])

/** The plan as one of several kinds of worlds. Some kinds depend on those that were chosen before. */
export const varied = (plan: Plan): Plan => {
  const ordered = withCandidateList(withDefinedList({ ...plan, setting: withOrder(plan.seed, plan.setting) }))
  const whole = withKeys(
    withOutage(withRequestSlots(withFleet(withForgetting(withPlugins(withBrokenBackfill(ordered))))))
  )
  return withRefusedWrites(withSlowPages(withGatewayPages(withSlowStore(whole))))
}

/**
 * In some worlds with candidates these are a list of the API: from the start, or after a restart. There are no plugins, no fleets and no
 * forgetting, and the store is never replaced, because a copy could be older than the list.
 */
const withCandidateList = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`candidate list ${plan.seed}`))
  const { candidates, duration, streams } = plan.setting
  const applications = streams.find(({ model }) => model === "ats.application")
  if (!candidates || applications === undefined || random.boolean(0.7)) return plan
  const candidateList = random.boolean(0.3) ? 0 : Math.floor((0.1 + 0.5 * random.next()) * duration)
  const restart: Trouble = { at: candidateList, trouble: "stop", count: 0, value: random.next() }
  const kept = plan.steps.filter((step) => !("trouble" in step) || !replacing.has(step.trouble))
  return {
    ...plan,
    setting: {
      ...plan.setting,
      candidateList,
      lacksList: null,
      streams: [...streams, { ...applications, model: "ats.candidate" }]
    },
    steps: [...kept, ...candidateList === 0 ? [] : [restart]].sort((a, b) => a.at - b.at)
  }
}

/**
 * In some of the worlds with skills, the list is one that the configuration defines. In some of these it is only swept, in others some
 * processes lack it.
 */
const withDefinedList = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`defined list ${plan.seed}`))
  if (random.boolean(0.5)) return plan
  const streams = plan.setting.streams.map((stream) =>
    stream.model === "hris.skill" ? { ...stream, model: "hris.ability" } as const : stream
  )
  const sweepOnly = random.boolean(0.3)
  const isDefined = streams.some(({ model }) => model === "hris.ability")
  const lacksList = isDefined && random.boolean(0.5) ? random.pick([0, 1, 2] as const) : null
  return { ...plan, setting: { ...plan.setting, streams, sweepOnly, lacksList } }
}

/** In some of the worlds that page by offset, changes do not move records. */
const withOrder = (seed: number, setting: WorldSettings): WorldSettings => {
  const random = new SeededRandom(hash(`order ${seed}`))
  if (random.boolean(0.6)) return setting
  return { ...setting, order: random.pick(["byCreation", "byCreationDescending", "byId", "byIdDescending"]) }
}

/** In some worlds the process dies during the backfill, and rows move before the next process continues. */
const withBrokenBackfill = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`broken backfill ${plan.seed}`))
  const { setting, steps } = plan
  const sorted = (all: ReadonlyArray<Step>) => ({ ...plan, steps: [...all].sort((a, b) => a.at - b.at) })
  if (random.boolean(0.7)) return sorted(steps)
  const deaths = Array.from({ length: random.int(1, 3) }, (): Trouble => ({
    at: random.int(0, 2_000),
    trouble: random.pick(["killAfterCommit", "killAfterCommit", "killBeforeCommit"]),
    count: random.int(1, 8),
    value: random.next()
  }))
  const moves = Array.from({ length: random.int(4, 12) }, (): Mutation => ({
    at: Math.floor(random.next() ** 2 * 10 * minute),
    mutation: random.pick(["edit", "edit", "edit", "stir", "flag", "vanish", "create"]),
    stream: random.int(0, setting.streams.length - 1),
    recordPick: random.next() ** 2,
    value: random.next(),
    lag: 0,
    midway: random.boolean(0.3)
  }))
  return {
    ...sorted([...steps, ...deaths, ...moves]),
    setting: { ...setting, records: Math.max(setting.records, 10), pageSize: Math.min(setting.pageSize, 4) }
  }
}

/**
 * Some worlds with applications run plugins; these worlds take twice as long. No store is restored or adopted in them, because the
 * effects of lost writes would still be in the world, without a journal entry.
 */
const withPlugins = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`plugins ${plan.seed}`))
  const canWrite = plan.setting.streams.some(({ model }) => model === "ats.application")
  if (!canWrite || plan.setting.candidateList !== null || random.boolean(0.7)) return plan
  return {
    ...plan,
    setting: { ...plan.setting, plugins: true },
    steps: plan.steps.filter((step) => !("trouble" in step) || !replacing.has(step.trouble)),
    writes: Array.from({ length: 12 }, (_, index) => index + 1).filter(() => random.boolean(0.3)).map((number) => ({
      number,
      kind: random.pick(writeFaults)
    })),
    replays: Array.from({ length: random.int(0, 4) }, () => {
      const from = random.boolean(0.4) ? 0 : random.next()
      return {
        at: Math.floor((0.3 + 0.7 * random.next()) * plan.setting.duration),
        from,
        to: from + (1 - from) * (random.boolean(0.4) ? 1 : random.next())
      }
    })
  }
}

/** In some worlds with plugins the API refuses all writes for a while. */
const withRefusedWrites = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`refused writes ${plan.seed}`))
  const { duration, plugins } = plan.setting
  if (!plugins || random.boolean(0.6)) return plan
  const from = Math.floor(random.next() * duration)
  const until = from + random.int(2, 15) * minute
  return { ...plan, setting: { ...plan.setting, refusedWrites: { ...random.pick(writeRefusals), from, until } } }
}

/** What happens to the process or its store in the middle of the forgetting. */
const interruptions: ReadonlyArray<TroubleKind> = [
  "killBeforeCommit",
  "killBeforeCommit",
  "killAfterCommit",
  "killAfterCommit",
  "storeAway",
  "storeUnsure",
  "rival",
  "kill",
  "storeRestored",
  "storeFailedOver",
  "adopt"
]

/**
 * In some worlds an operator forgets records and allows some of them again. The `count` of a trouble is the number of transactions of the
 * forgetting that succeed before it.
 */
const withForgetting = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`forgetting ${plan.seed}`))
  const { setting, steps } = plan
  if (setting.candidateList !== null || random.boolean(0.7)) return plan
  const meanwhile = interruptions.filter((kind) => !setting.plugins || !replacing.has(kind))
  const more = Array.from({ length: random.int(1, 4) }, (): ReadonlyArray<Step> => {
    const at = Math.floor((0.1 + 0.9 * random.next()) * setting.duration)
    const forget: Command = { at, command: "forget", value: random.next(), midway: random.boolean(0.3) }
    const trouble: Trouble = { at, trouble: random.pick(meanwhile), count: random.int(0, 8), value: random.next() }
    const allow: Command = {
      at: at + Math.floor(random.next() * (setting.duration - at)),
      command: "allow",
      value: random.next(),
      midway: random.boolean(0.3)
    }
    // an operator adopts the store before the forgetting is complete
    const adopt: Trouble = { ...trouble, trouble: "adopt", at: at + random.int(0, 2_000) }
    const adopts = !setting.plugins && random.boolean(0.2)
    // the failure is injected first, so that it meets the transactions of the forgetting
    return [
      ...adopts || random.boolean(0.5) ? [trouble] : [],
      forget,
      ...adopts ? [adopt] : [],
      ...random.boolean(0.5) ? [allow] : []
    ]
  })
  return { ...plan, steps: [...steps, ...more.flat()].sort((a, b) => a.at - b.at) }
}

const deathsOfOne: ReadonlyArray<TroubleKind> = ["kill", "kill", "stop", "killBeforeCommit", "killAfterCommit"]

/** In some worlds several processes share the work, and shards move between them. */
const withFleet = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`fleet ${plan.seed}`))
  // worlds with plugins take several times as long
  if (plan.setting.candidateList !== null || random.boolean(plan.setting.plugins ? 0.93 : 0.7)) return plan
  const trouble = (kind: TroubleKind, at: number): Trouble => ({
    at: Math.floor(at * plan.setting.duration),
    trouble: kind,
    count: 0,
    value: random.next()
  })
  const joins = Array.from({ length: random.int(1, 4) }, () => trouble("join", random.next() ** 2))
  const others = Array.from({ length: random.int(2, 8) }, () => trouble(random.pick(fleetTroubles), random.next()))
  const deaths = Array.from({ length: random.int(0, 3) }, () => trouble(random.pick(deathsOfOne), random.next()))
  return {
    ...plan,
    setting: { ...plan.setting, fleet: true },
    steps: [...plan.steps, ...joins, ...others, ...deaths].sort((a, b) => a.at - b.at)
  }
}

/** In some fleets the processes share the request slots of the account. Slow requests need many renewals of leases, which cost time. */
const withRequestSlots = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`shared slots ${plan.seed}`))
  const { fleet, latency, plugins } = plan.setting
  if (!fleet || plugins || latency > 8_000 || random.boolean(0.7)) return plan
  return { ...plan, setting: { ...plan.setting, requestSlots: random.pick([1, 1, 2, 3]) } }
}

/** In a few fleets a handler fails for every record, until its circuit opens, and shards move meanwhile. */
const withOutage = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`outage ${plan.seed}`))
  const { fleet, latency, plugins, records } = plan.setting
  if (!fleet || plugins || latency > 8_000 || random.boolean(0.8)) return plan
  const outage = random.int(5, 10) * minute
  const moves = Array.from({ length: random.int(2, 6) }, (): Trouble => ({
    at: random.int(minute, outage),
    trouble: random.pick(["move", "move", "freeze", "kill", "join"]),
    count: 0,
    value: random.next()
  }))
  const join: Trouble = { at: random.int(0, minute), trouble: "join", count: 0, value: random.next() }
  // deliveries use the clock of the database, which no operator sets, and circuits belong to one store
  const kept = plan.steps.filter((step) =>
    !("trouble" in step) || (step.trouble !== "clock" && !replacing.has(step.trouble))
  )
  return {
    ...plan,
    setting: { ...plan.setting, outage, records: Math.max(records, 10) },
    steps: [...kept, join, ...moves].sort((a, b) => a.at - b.at)
  }
}

/** In some worlds without plugins and fleets the store is so slow that polls take longer than the interval, and these worlds last longer. */
const withSlowStore = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`slow store ${plan.seed}`))
  const { duration, fleet, interval, latency, plugins } = plan.setting
  if (fleet || plugins || random.boolean(0.75)) return plan
  const storeDelay = Math.floor((0.3 + 1.2 * random.next()) * interval)
  const slow = { storeDelay, latency: random.pick([latency, 50_000]), duration: 2 * duration }
  return { ...plan, setting: { ...plan.setting, ...slow } }
}

/** In some worlds a gateway in front of the API answers some requests. */
const withGatewayPages = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`gateway ${plan.seed}`))
  if (random.boolean(0.7)) return plan
  const pages = Array.from({ length: random.int(1, 3) }, (): Fault => ({
    at: Math.floor(random.next() * plan.setting.duration),
    fault: "gatewayPage",
    stream: random.int(0, plan.setting.streams.length - 1),
    count: random.int(1, 6),
    page: null,
    value: random.next()
  }))
  return { ...plan, steps: [...plan.steps, ...pages].sort((a, b) => a.at - b.at) }
}

/** In some worlds larger pages take the API too long: always, or until the middle of a backfill that must not skip rows then. */
const withSlowPages = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`slow pages ${plan.seed}`))
  const { setting } = plan
  if (random.boolean(0.75)) return plan
  const rows = random.pick([1, 2])
  if (random.boolean(0.4)) return { ...plan, setting: { ...setting, slow: { rows, until: null } } }
  const records = Math.max(setting.records, 10)
  return {
    ...plan,
    setting: {
      ...setting,
      records,
      pageSize: Math.max(setting.pageSize, 5),
      order: setting.order === "stable" ? "byCreation" : setting.order,
      slow: { rows, until: Math.floor(random.next() * setting.latency * (records / rows + 5)) }
    }
  }
}

/** In some fleets the processes encrypt the store. An operator changes the key several times and replaces processes. */
const withKeys = (plan: Plan): Plan => {
  const random = new SeededRandom(hash(`keys ${plan.seed}`))
  const { fleet, outage, plugins } = plan.setting
  if (!fleet || plugins || outage !== null || random.boolean(0.6)) return plan
  const { duration } = plan.setting
  const trouble = (kind: TroubleKind, at: number): Trouble => ({
    at: Math.floor(Math.min(1, at) * duration),
    trouble: kind,
    count: 0,
    value: random.next()
  })
  const changes = Array.from({ length: random.int(1, 4) }, (): ReadonlyArray<Trouble> => {
    const at = random.next()
    const replaced = Array.from({ length: random.int(1, 4) }, () => trouble("replace", at + random.next() ** 2 / 2))
    return [
      trouble("newKey", at),
      ...replaced,
      ...random.boolean(0.5) ? [trouble("freeze", at + random.next() / 5)] : []
    ]
  })
  // processes whose keys differ must share one store and one clock
  const kept = plan.steps.filter((step) =>
    !("trouble" in step) || (step.trouble !== "clock" && !replacing.has(step.trouble))
  )
  return {
    ...plan,
    setting: { ...plan.setting, keys: true },
    steps: [...kept, ...changes.flat()].sort((a, b) => a.at - b.at)
  }
}
