/**
 * A history as data: the setting of one world and what happens in it, step by step. Whatever runs is decided by this, so
 * that a history can be printed, replayed, and made shorter one step at a time.
 *
 * Gotchas
 * - Steps name records by a number in [0, 1), not by id: a step keeps its meaning when others are taken away.
 */
import type { IncrementalModel } from "../../../src/api/Lists.ts"

/** What happens to records. The comment says what the API shows of it. */
export const mutations = [
  /** A new record. */
  "create",
  /** A record of years ago turns up, with a fresh `changed_at` (B3). */
  "createOld",
  /** A record without a creation time. */
  "createUndated",
  /** Created and deleted before anybody looks (D8). */
  "createDeleted",
  "edit",
  /** The outcome of an application. */
  "outcome",
  "stage",
  /** Only `changed_at` and `remote_updated_at` move. */
  "stir",
  /** Keys and set-like arrays come in another order. */
  "reorder",
  /** A linked record on a path that announces: candidate, scale. `changed_at` stays. */
  "renameLinked",
  /** A candidate, as some of its applications show it; the others go on with an older copy (N5). */
  "renamePartly",
  /** A linked record on a path that does not announce: job, tag (N1). */
  "renameSilent",
  /** The same, and one of those that show it is changed itself: there the new name is seen. */
  "renameSeen",
  /** An entry of an array that announces. */
  "entry",
  /** A value outside every enumeration, a new property, a property of another type (S1). */
  "surprise",
  /** `changed_at` is null, in the future or goes back (W7). */
  "oddStamp",
  "flag",
  /** Gone from every list, never flagged (D2). */
  "vanish",
  "restore",
  /** Fourteen days after a delete every field is null (D11). */
  "blank",
  /** A live record with nothing left in it (D23). */
  "empty",
  /** A field is taken out of the scope configuration: null on every record, and back (C3). */
  "fieldOff",
  "fieldOn",
  /** The model is taken out: every record deleted, and back (C2). */
  "modelOff",
  "modelOn",
  /** A third of all records, flagged or gone (D6). */
  "flagMany",
  "vanishMany"
] as const
export type MutationKind = (typeof mutations)[number]

/** What the API does wrong. */
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
  /** Nothing comes back until a time-out. */
  "lost",
  /** Answered at once, delivered minutes later. */
  "late",
  /** Fewer rows than asked for, and an honest cursor (P7). */
  "short",
  /** No row, and a cursor that goes on (P6). */
  "emptyPage",
  /** Some rows are left out: what drift looks like from here (P1). */
  "dropped",
  /** The end, although there is more (D4). */
  "endsEarly",
  /** Rows twice on a page. */
  "repeated",
  /** Older copies, in place of the record, before it or after it (P3). */
  "stale",
  /** 200 with nothing in it (D5). */
  "nothing",
  /** A cursor that is refused (P5). */
  "expired",
  /** A cursor that leads back (P4). */
  "cycle",
  /** `updated_after` has no effect (W12), or lets nothing through (C6). */
  "filterIgnored",
  "filterEmpty",
  /** `ids` has no effect, lets nothing through (D13), or only the first few (D22). */
  "idsIgnored",
  "idsEmpty",
  "idsFew",
  /** Rows without an id (D14). */
  "nameless",
  /** No `Date`, one a day off (W10), one that a cache kept (W5). */
  "dateMissing",
  "dateWrong",
  "dateCached"
] as const
export type FaultKind = (typeof faults)[number]

/** What goes wrong on our side. */
export const troubles = [
  /** Killed just before, or just after, the commit of a transaction to come; started again later. */
  "killBeforeCommit",
  "killAfterCommit",
  /** Killed while a batch is on its way to the sink, before or after the sink took it. */
  "killBeforeSend",
  "killAfterSend",
  /** Killed now; stopped in good order. */
  "kill",
  "stop",
  /** A second process takes over while this one still runs and goes on trying (X9). */
  "rival",
  /** The store is away: a commit fails, or succeeds and nobody learns of it. */
  "storeAway",
  "storeUnsure",
  "sinkAway",
  /** The sink takes a batch and the answer is lost. */
  "sinkUnsure",
  /** The store is replaced by a copy made up to an hour ago (X14, X18). */
  "storeRestored",
  /** The store is gone and an empty one takes its place, on topics that were published to (X14). */
  "storeLost",
  /** A copy made up to an hour ago, or just now, answers in place of the store while the process runs (X14, X18). */
  "storeFailedOver",
  /** Somebody adopts the store, restored or not, as it is (X11, X14). */
  "adopt",
  /** Our clock is set. */
  "clock",
  /** Somebody decides about what is held. */
  "approve",
  "reject"
] as const
export type TroubleKind = (typeof troubles)[number]

interface Common {
  /** ms since the beginning. */
  readonly at: number
  /** In [0, 1): which record, how much, whatever the kind needs. */
  readonly value: number
}
export interface Mutation extends Common {
  readonly mutation: MutationKind
  readonly stream: number
  readonly recordPick: number
  /** ms from its timestamp until it can be seen. */
  readonly lag: number
  /** Waits until a list is being read and happens between two of its pages. */
  readonly midway: boolean
}
export interface Fault extends Common {
  readonly fault: FaultKind
  readonly stream: number
  /** How many requests it meets. */
  readonly count: number
  /** Only this page of a reading. */
  readonly page: number | null
}
export interface Trouble extends Common {
  readonly trouble: TroubleKind
  /** Transactions or batches that still go well. */
  readonly count: number
}
export type Step = Mutation | Fault | Trouble

/** What becomes of one write of a plugin. */
export const writeFaults = [
  /** Nothing was done, and that is known. */
  "notSent",
  /** Nothing was done, or all of it, and nobody learns which. */
  "lostBefore",
  "lostAfter",
  /** The process is killed with the write under way: it never arrives, or does. */
  "killBefore",
  "killAfter",
  /** A second process takes over while it is under way. */
  "rival",
  /** It is refused for the rate limit first, and waits ten minutes for its turn: nothing else happens … */
  "limited",
  /** … a second process takes over meanwhile … */
  "limitedRival",
  /** … somebody stops all writes, and resumes them later … */
  "limitedStop",
  /** … the process is killed. */
  "limitedKill",
  /** The process stands still between the check and the sending, until long after a second one took over. */
  "frozenRival"
] as const
export interface WriteFault {
  readonly kind: (typeof writeFaults)[number]
  /** Which of the writes that arrive, from 1. */
  readonly number: number
}

/** Somebody has events of the log delivered again, to the handler that gets them in batches. */
export interface Replay {
  /** ms since the beginning. */
  readonly at: number
  /** The stretch of the log, in [0, 1]. */
  readonly from: number
  readonly to: number
}

export interface WorldSettings {
  readonly streams: ReadonlyArray<{ readonly integration: string; readonly model: IncrementalModel }>
  /** Of applications candidates are derived. */
  readonly candidates: boolean
  /** Records of each stream at the beginning. */
  readonly records: number
  /** ms, all of them. */
  readonly interval: number
  readonly sweepInterval: number
  readonly confirmInterval: number
  readonly overlapMin: number
  readonly duration: number
  /** A request takes this long on average. */
  readonly latency: number
  /** Our clock − theirs. */
  readonly skew: number
  readonly pageSize: number
  /**
   * Where a changed record goes: to the end or the front of its list, or nowhere, in a list by creation or by id, or every reading has
   * its own order. Only `stable` is paged by serial number, all others by place: what leaves them moves all that is behind it.
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
  /** `updated_after`: `>=` or `>`, and the resolution it is compared with. */
  readonly inclusive: boolean
  readonly resolution: 1 | 1000
  /** Plugins run that write. */
  readonly plugins: boolean
  /** Once all is quiet: a name that one record shows anew and others repeat, or two changes that are shown late. */
  readonly epilogue: "none" | "siblings" | "late"
}

export interface Plan {
  readonly seed: number
  readonly setting: WorldSettings
  readonly steps: ReadonlyArray<Step>
  readonly writes: ReadonlyArray<WriteFault>
  readonly replays: ReadonlyArray<Replay>
}

export const kindOf = (step: Step): MutationKind | FaultKind | TroubleKind =>
  "mutation" in step ? step.mutation : "fault" in step ? step.fault : step.trouble

/** A step in words. */
export const describe = (step: Step): string => {
  const { at, ...rest } = step
  const details = Object.entries(rest).filter(([name, value]) =>
    !["mutation", "fault", "trouble"].includes(name) && value !== null && value !== false &&
    !(name === "lag" && value === 0)
  )
  return `${(at / 60_000).toFixed(2).padStart(8)} min  ${kindOf(step).padEnd(16)} ${
    details.map(([name, value]) => `${name} ${typeof value === "number" ? Number(value.toFixed(3)) : value}`).join(", ")
  }`
}
