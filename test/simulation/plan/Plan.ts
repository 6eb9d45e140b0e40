/**
 * A plan: the settings of one world and the steps that happen in it, as data. The plan determines the whole run, so
 * that a run can be printed, replayed, and shrunk one step at a time.
 *
 * Gotchas
 * - Steps identify records by a number in [0, 1), not by id: a step keeps its meaning when other steps are removed.
 */
import type { SimulatedModel } from "../world/DefinedModels.ts"

/** Changes of records. Each comment says what the API shows. */
export const mutations = [
  /** A new record. */
  "create",
  /** A record created years ago appears, with a fresh `changed_at` (B3). */
  "createOld",
  /** A record without a creation time. */
  "createUndated",
  /** Created and deleted before any run reads it (D8). */
  "createDeleted",
  "edit",
  /** The outcome of an application. */
  "outcome",
  "stage",
  /** Only `changed_at` and `remote_updated_at` move. */
  "stir",
  /** Keys and set-like arrays come in another order. */
  "reorder",
  /** A rename of a linked record on a path that announces changes: candidate, scale. `changed_at` stays. */
  "renameLinked",
  /** A rename of a candidate that only some of its applications show; the others keep an older copy (N5). */
  "renamePartly",
  /** A rename of a linked record on a path that does not announce changes: job, tag (N1). */
  "renameSilent",
  /** As `renameSilent`, and one record that shows the new name changes itself, so that a poll sees the name. */
  "renameSeen",
  /** An entry is added to or removed from an array that announces changes. */
  "entry",
  /** A value outside every enumeration, a new property, or a property of another type (S1). */
  "surprise",
  /** `changed_at` is null, in the future or moves back (W7). */
  "oddStamp",
  "flag",
  /** Gone from every list, never flagged (D2). */
  "vanish",
  "restore",
  /** Fourteen days after a delete every field is null (D11). */
  "blank",
  /** A live record whose content is all null (D23). */
  "empty",
  /** A field is removed from the scope configuration and is null on every record; later it is back (C3). */
  "fieldOff",
  "fieldOn",
  /** A model is removed from the scope configuration and every record is deleted; later it is back (C2). */
  "modelOff",
  "modelOn",
  /** A third of all records is flagged as deleted, or vanishes (D6). */
  "flagMany",
  "vanishMany"
] as const
export type MutationKind = (typeof mutations)[number]

/** Faults of the API. */
export const faults = [
  "rateLimited",
  "transient",
  "unauthorized",
  "permission",
  "unsupported",
  "notReady",
  "inactive",
  "rejected",
  "unreadable",
  /** No response until a time-out. */
  "lost",
  /** The response is made at once and delivered minutes later. */
  "late",
  /** Fewer rows than requested, with a correct cursor (P7). */
  "short",
  /** No rows, and a cursor that continues (P6). */
  "emptyPage",
  /** Some rows are missing, as after drift (P1). */
  "dropped",
  /** The list ends early, although there are more rows (D4). */
  "endsEarly",
  /** Some rows occur twice on a page. */
  "repeated",
  /** Older copies of a record: instead of it, before it or after it (P3). */
  "stale",
  /** 200 with an empty list (D5). */
  "nothing",
  /** A cursor that is rejected (P5). */
  "expired",
  /** A cursor that points back (P4). */
  "cycle",
  /** `updated_after` has no effect (W12), or matches nothing (C6). */
  "filterIgnored",
  "filterEmpty",
  /** `ids` has no effect, matches nothing (D13), or only the first few (D22). */
  "idsIgnored",
  "idsEmpty",
  "idsFew",
  /** Rows without an id (D14). */
  "nameless",
  /** No `Date` header, a date one day off (W10), or a date that a cache kept (W5). */
  "dateMissing",
  "dateWrong",
  "dateCached",
  /** A gateway or a firewall answers with a page of its own, with any status. */
  "gatewayPage"
] as const
export type FaultKind = (typeof faults)[number]

/** Failures of the service and its environment. */
export const troubles = [
  /** The process is killed just before, or just after, a later transaction commits; it restarts after a while. */
  "killBeforeCommit",
  "killAfterCommit",
  /** The process is killed while it sends a batch, before or after the sink stores it. */
  "killBeforeSend",
  "killAfterSend",
  /** Killed now; stopped cleanly. */
  "kill",
  "stop",
  /** A second process takes over while the first one still runs and keeps trying (X9). */
  "rival",
  /** The store is unavailable: a commit fails, or succeeds and the process does not learn that. */
  "storeAway",
  "storeUnsure",
  "sinkAway",
  /** The sink stores a batch and the response is lost. */
  "sinkUnsure",
  /** The store is replaced by a copy that is up to an hour old (X14, X18). */
  "storeRestored",
  /** The store is lost and an empty one takes its place; the topics hold published events (X14). */
  "storeLost",
  /** A copy that is up to an hour old, or current, answers in place of the store while the process runs (X14, X18). */
  "storeFailedOver",
  /** An operator adopts the store as it is, restored or not (X11, X14). */
  "adopt",
  /** The service's clock is set. */
  "clock",
  /** An operator decides about the open holds. */
  "approve",
  "reject"
] as const

/** What happens to the processes of a fleet. */
export const fleetTroubles = [
  /** A further process joins and shares the work. */
  "join",
  /** Shards move between the processes. */
  "move",
  /** The process loses its shards, and notices that only later. */
  "freeze"
] as const

/** Steps of an operator in fleets that encrypt the store. */
export const keyTroubles = [
  /**
   * The processes that start from now on have a new key: as the first one, or below their current key, so that others can write with it. In
   * the second case the next step of this kind makes it the first one.
   */
  "newKey",
  /** The oldest process is stopped, and another one is started. */
  "replace"
] as const
export type TroubleKind =
  | (typeof troubles)[number]
  | (typeof fleetTroubles)[number]
  | (typeof keyTroubles)[number]

/** Commands of an operator about one record. */
export const commands = [
  /** A record, or a candidate that applications repeat, is forgotten. */
  "forget",
  /** One of the forgotten records may be stored again. */
  "allow"
] as const
export type CommandKind = (typeof commands)[number]

interface Common {
  /** ms since the start. */
  readonly at: number
  /** In [0, 1): selects a record, an amount or another parameter of the kind. */
  readonly value: number
}
export interface Mutation extends Common {
  readonly mutation: MutationKind
  readonly stream: number
  readonly recordPick: number
  /** ms between the change's timestamp and its visibility. */
  readonly lag: number
  /** Waits until a list is being read, and happens between two of its pages. */
  readonly midway: boolean
}
export interface Fault extends Common {
  readonly fault: FaultKind
  readonly stream: number
  /** How many requests have the fault. */
  readonly count: number
  /** Only this page of a list. */
  readonly page: number | null
}
export interface Trouble extends Common {
  readonly trouble: TroubleKind
  /** How many transactions or batches still succeed before the failure. */
  readonly count: number
}
export interface Command extends Common {
  readonly command: CommandKind
  /** Waits until a list is being read, and starts between two of its pages. */
  readonly midway: boolean
}
export type Step = Mutation | Fault | Trouble | Command

/** The fault of one plugin write. */
export const writeFaults = [
  /** The write has no effect, and the service knows that. */
  "notSent",
  /** The write has no effect, or takes effect, and the service does not learn which. */
  "lostBefore",
  "lostAfter",
  /** The process is killed during the write: it never arrives, or it does. */
  "killBefore",
  "killAfter",
  /** A second process takes over during the write. */
  "rival",
  /** The write is rejected by the rate limit first, and waits ten minutes for its slot. Nothing else happens … */
  "limited",
  /** … a second process takes over meanwhile … */
  "limitedRival",
  /** … an operator stops all writes, and resumes them later … */
  "limitedStop",
  /** … the process is killed. */
  "limitedKill",
  /** The process freezes between the check and the sending, until long after a second one took over. */
  "frozenRival"
] as const
export interface WriteFault {
  readonly kind: (typeof writeFaults)[number]
  /** The number of the write among those that arrive, from 1. */
  readonly number: number
}

/** An operator replays events of the log to the handler that receives batches. */
export interface Replay {
  /** ms since the start. */
  readonly at: number
  /** The range of the log, in [0, 1]. */
  readonly from: number
  readonly to: number
}

/** The responses of an API that accepts no writes: the key was revoked, the connection broke, or the set-up is not finished. */
export const writeRefusals = [
  { status: 401, code: "PLATFORM.AUTHENTICATION_INVALID" },
  { status: 400, code: "INTEGRATION.AUTHENTICATION_INVALID" },
  { status: 409, code: "INTEGRATION.SETUP_SYNC_PENDING" }
] as const

export interface WorldSettings {
  readonly streams: ReadonlyArray<{ readonly integration: string; readonly model: SimulatedModel }>
  /** Until the quiet phase, the configuration of every third process lacks the defined list: those whose number has this remainder. */
  readonly lacksList: 0 | 1 | 2 | null
  /** Candidates are derived from applications. */
  readonly candidates: boolean
  /** From this time on the processes that start read candidates as a list, in ms since the start; null if none does. */
  readonly candidateList: number | null
  /** The defined list is only swept, because its `updated_after` returns only a part of the changes. */
  readonly sweepOnly: boolean
  /** Initial records of each stream. */
  readonly records: number
  /** This and the next four in ms. */
  readonly interval: number
  readonly sweepInterval: number
  readonly confirmInterval: number
  readonly minOverlap: number
  readonly duration: number
  /** Average duration of a request, in ms. */
  readonly latency: number
  /** How long each statement of the capture takes to reach the store, from the fifth interval to the quiet phase, in ms. */
  readonly storeDelay: number
  /** The service's clock minus the API's clock, in ms. */
  readonly skew: number
  readonly pageSize: number
  /**
   * Pages that are requested with more rows than this take the API too long, until `until` (ms since the start), or always if it is null.
   * Cursors then count pages. Null if the API is fast.
   */
  readonly slow: { readonly rows: number; readonly until: number | null } | null
  /**
   * Where a changed record moves: to the end or the front of its list, or not at all in a list ordered by creation or id; `shuffled` has
   * another order in every run. Only `stable` pages by serial number. All others page by offset: a row that leaves moves all rows after it.
   */
  readonly order:
    | "toEnd"
    | "toFront"
    | "stable"
    | "shuffled"
    | "byCreation"
    | "byCreationDescending"
    | "byId"
    | "byIdDescending"
  /** How `updated_after` compares: `>=` or `>`, and its resolution in ms. */
  readonly inclusive: boolean
  readonly resolution: 1 | 1000
  /** Some records show a future `remote_created_at`: local time as UTC, a day to come, or the last day of the calendar. */
  readonly futureDates: boolean
  /** Plugins that write are active. */
  readonly plugins: boolean
  /** The API refuses all writes between these times, in ms since the start; null if it never does. */
  readonly refusedWrites: ((typeof writeRefusals)[number] & { readonly from: number; readonly until: number }) | null
  /** Several processes share the work. */
  readonly fleet: boolean
  /** The processes of the fleet encrypt the store, and an operator changes the key. */
  readonly keys: boolean
  /** How many requests the processes of a fleet may have in flight together; null for any number. */
  readonly requestSlots: number | null
  /** How long a handler fails for every record, from the start, in ms; null if there is no such handler. */
  readonly outage: number | null
  /** After the quiet phase: a new name that one record shows and others still repeat, or two changes that become visible late. */
  readonly epilogue: "none" | "siblings" | "late"
}

export interface Plan {
  readonly seed: number
  readonly setting: WorldSettings
  readonly steps: ReadonlyArray<Step>
  readonly writes: ReadonlyArray<WriteFault>
  readonly replays: ReadonlyArray<Replay>
}

export const kindOf = (step: Step): MutationKind | FaultKind | TroubleKind | CommandKind =>
  "mutation" in step ? step.mutation : "fault" in step ? step.fault : "trouble" in step ? step.trouble : step.command

/** One line of text for a step. */
export const describe = (step: Step): string => {
  const { at, ...rest } = step
  const details = Object.entries(rest).filter(([name, value]) =>
    !["mutation", "fault", "trouble", "command"].includes(name) && value !== null && value !== false &&
    !(name === "lag" && value === 0)
  )
  return `${(at / 60_000).toFixed(2).padStart(8)} min  ${kindOf(step).padEnd(16)} ${
    details.map(([name, value]) => `${name} ${typeof value === "number" ? Number(value.toFixed(3)) : value}`).join(", ")
  }`
}
