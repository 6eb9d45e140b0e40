/** What a process under `Steps.ts` is told to do, and what it tells. */

/** The end, or the freezing, of a process at one of its durable steps. */
export interface Doom {
  /** Only steps of this kind count; absent = all. */
  readonly of?: string
  /** From 1. */
  readonly n: number
  readonly side: "before" | "after"
  readonly signal: "SIGKILL" | "SIGSTOP"
}

/** A line of the process: a transaction was begun or is over, a step is done, the end is now. `at` is Unix ms. */
export type Told =
  | { readonly writing: boolean }
  | { readonly step: number; readonly of: string; readonly at: number }
  | { readonly doomed: string; readonly at: number }
