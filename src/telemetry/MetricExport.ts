/**
 * The port for metrics whose values the server reads for each export. The metrics that this process counts are exported without it.
 * `Otlp.ts` implements the port.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** A metric: its name, its description for people, and its type. */
export interface Family {
  readonly name: string
  readonly description: string
  /** Default: a gauge. */
  readonly type?: "counter"
}

export type Labels = Readonly<Record<string, string>>

/** The value of one metric with these labels. */
export interface Series {
  readonly family: Family
  readonly labels: Labels
  readonly value: number
}

/** null: this process exports no metrics. */
export const MetricExport = Context.Reference<
  {
    /** Reads these metrics before each export, and a last time when the scope closes. */
    readonly readWith: (read: Effect.Effect<ReadonlyArray<Series>>) => Effect.Effect<void, never, Scope.Scope>
  } | null
>("rollcall/telemetry/MetricExport", { defaultValue: () => null })

/** The metrics of the placement are left out: `rollcall_shards_owned` has the same information. */
export const isExported = (name: string): boolean => !name.startsWith("effect_cluster_")
