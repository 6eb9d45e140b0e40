/** Instructions for a process under `Steps.ts`, and the lines that it reports. */

/** Kills or freezes a process at one of its durable steps. */
export interface Doom {
  /** Counts only steps of this kind; absent for all. */
  readonly of?: string
  /** The number of the step, from 1. */
  readonly n: number
  readonly side: "before" | "after"
  readonly signal: "SIGKILL" | "SIGSTOP"
}

/** A line that the process reports: a transaction starts or ends, a step is done, or the signal follows now. `at` is Unix ms. */
export type StepReport =
  | { readonly writing: boolean }
  | { readonly step: number; readonly of: string; readonly at: number }
  | { readonly doomed: string; readonly at: number }
