/** The form of a mutant, and worlds that notice some of them. */

export interface Patch {
  /** Must occur exactly once in all sources. */
  readonly from: string
  readonly to: string
}

export interface Mutant {
  readonly name: string
  /** The removed defense, as a sentence that no longer holds. */
  readonly without: string
  readonly patches: ReadonlyArray<Patch>
  /** The first world that the long tests try. */
  readonly firstWorld: number
}

/**
 * For each mutant that few worlds notice: a world that does. The long tests begin their search there: an outdated number costs only time, and
 * `npm run mutants -- --only <name> --until 1 --worlds 1000` prints the new one.
 */
export const noticedIn: Readonly<Record<string, number>> = {
  "no-second-pass": 57,
  "restart-unseen": 63,
  "polls-first": 28,
  "late-date": 32,
  "nameless-infers": 84,
  "hash-without-removal": 42,
  "no-attempt-fence": 52,
  "batches-forgotten": 42,
  "checked-before-its-turn": 38,
  "list-references": 31,
  "list-polled": 20,
  "list-beside-derivation": 8,
  "list-without-backfill": 8,
  "no-refresh": 31,
  "candidate-dies-early": 51,
  "forgotten-results": 263,
  "forgetting-abandoned": 35,
  "forgotten-adopted": 195,
  "adoption-unreconciled": 72,
  "failover-unnoticed": 99,
  "unshared-budget": 108,
  "no-delivery-fence": 42,
  "unshared-circuits": 39
}

export const mutant = (
  name: string,
  without: string,
  ...patches: ReadonlyArray<readonly [from: string, to: string]>
): Mutant => ({
  name,
  without,
  patches: patches.map(([from, to]) => ({ from, to })),
  firstWorld: noticedIn[name] ?? 1
})
