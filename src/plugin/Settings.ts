/**
 * How a plugin is used: the argument of `with`, and what several calls mean together.
 *
 * Invariants
 * 1. A call of `with` keeps each value of the earlier calls, unless it sets that value itself or switches the plugin off
 */

/** Configuration values by name, nested like the configuration. */
export interface Values {
  readonly [name: string]: string | number | boolean | Values
}

/** Off, on, or on with values. */
type Use<V> = boolean | { readonly values: V }

/** How a plugin is used. */
export interface Settings {
  /** Configuration values, which take precedence over the environment. */
  readonly values?: Values
  /**
   * Per integration: off, on, or on with values that apply only to that integration. `others` applies to integrations that are not
   * listed.
   */
  readonly integrations?: Readonly<Record<string, Use<Values>>>
  /** Whether the plugin is on in integrations that are not listed; true by default. */
  readonly others?: boolean
  /** The point in the event log from which a new handler receives events; `now` by default. */
  readonly from?: "now" | "oldest"
}

/** The values of several calls, the latest first: an earlier one applies where the later ones do not have the value. */
type Layers = ReadonlyArray<Values>

/** The settings of all calls of `with`. */
export interface CombinedSettings extends Omit<Settings, "values" | "integrations"> {
  readonly values?: Layers
  readonly integrations?: Readonly<Record<string, Use<Layers>>>
}

const combineUse = (before: Use<Layers> | undefined, use: Use<Values>): Use<Layers> => {
  const earlier = typeof before === "object" ? before.values : []
  if (typeof use !== "object") return use && earlier.length > 0 ? { values: earlier } : use
  // a plugin in JavaScript may pass null, which is an issue of the plugin
  return use !== null && { values: [use.values, ...earlier] }
}

export const combine = (before: CombinedSettings, more: Settings): CombinedSettings => {
  const { from = before.from, integrations, others = before.others, values } = { ...more }
  const uses = Object.entries({ ...integrations }).map(([id, use]) =>
    [id, combineUse(before.integrations?.[id], use)] as const
  )
  return {
    ...before,
    ...(from === undefined ? {} : { from }),
    ...(others === undefined ? {} : { others }),
    ...(values === undefined ? {} : { values: [values, ...before.values ?? []] }),
    ...(integrations === undefined ? {} : { integrations: { ...before.integrations, ...Object.fromEntries(uses) } })
  }
}
