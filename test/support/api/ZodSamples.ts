/**
 * Values that a schema of the public TypeScript client (zod 3) accepts: one full value, and for each alternative inside it
 * (a null, an absent field, another member of a union or an enumeration) one value with that alternative.
 *
 * Gotchas
 * - The client's schemas refer to themselves; a value stops at `maxDepth` levels of nesting.
 */

interface Schema {
  readonly _def: {
    readonly typeName: string
    readonly getter: () => Schema
    readonly innerType: Schema
    readonly schema: Schema
    readonly type: Schema
    readonly valueType: Schema
    readonly value: unknown
    readonly values: Readonly<Record<string, unknown>>
    readonly options: ReadonlyArray<Schema>
    readonly shape: () => Readonly<Record<string, Schema>>
    readonly checks?: ReadonlyArray<{ readonly kind: string }>
  }
  readonly parse: (value: unknown) => unknown
}

const maxDepth = 8
const absent = Symbol("absent")
const times = ["2026-03-01T12:00:00.000Z", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00.123456+02:00"]
const anything = [{ nested: [1, "x", null] }, "text", 7, true, null]

/** The values, the full one first. */
const valuesOf = (schema: Schema, depth: number): ReadonlyArray<unknown> => {
  const { _def: def } = schema
  switch (def.typeName) {
    case "ZodString":
      return def.checks?.some(({ kind }) => kind === "datetime") ? times : ["text"]
    case "ZodNumber":
      return def.checks?.some(({ kind }) => kind === "int") ? [3] : [2.5, 3]
    case "ZodBoolean":
      return [true, false]
    case "ZodDate":
      return [new Date("2026-03-01T12:34:56.789Z")]
    case "ZodLiteral":
      return [def.value]
    case "ZodNativeEnum":
      return Object.values(def.values)
    case "ZodAny":
      return anything
    case "ZodNullable":
      return [...valuesOf(def.innerType, depth), null]
    case "ZodOptional":
      return [...valuesOf(def.innerType, depth), absent]
    case "ZodDefault":
      return valuesOf(def.innerType, depth)
    case "ZodLazy":
      return valuesOf(def.getter(), depth)
    case "ZodEffects":
      return valuesOf(def.schema, depth)
    case "ZodUnion":
      return def.options.flatMap((option) => valuesOf(option, depth))
    case "ZodArray":
      return depth >= maxDepth ? [[]] : [...valuesOf(def.type, depth + 1).map((value) => [value]), []]
    case "ZodRecord":
      return depth >= maxDepth ? [{}] : [...valuesOf(def.valueType, depth + 1).map((value) => ({ key: value })), {}]
    case "ZodObject":
      return objectsOf(def.shape(), depth + 1)
    default:
      throw new Error(`no samples of ${def.typeName}`)
  }
}

const objectsOf = (shape: Readonly<Record<string, Schema>>, depth: number): ReadonlyArray<unknown> => {
  if (depth > maxDepth) return []
  const fields = Object.entries(shape).map(([name, schema]) => [name, valuesOf(schema, depth)] as const)
  if (fields.some(([, values]) => values.length === 0)) return []
  const full = fields.map(([name, [value = absent]]) => [name, value] as const)
  const variants = fields.flatMap(([name, [, ...others]]) =>
    others.map((other) => full.map(([field, value]) => [field, field === name ? other : value] as const))
  )
  return [full, ...variants].map((entries) => Object.fromEntries(entries.filter(([, value]) => value !== absent)))
}

/** Values that the schema accepts. */
export const samplesOf = (schema: unknown): ReadonlyArray<unknown> => {
  const known = schema as Schema
  const samples = valuesOf(known, 0)
  for (const sample of samples) known.parse(sample)
  return samples
}

/** The requests that the client sends for the values that a schema of a request accepts. */
export const requestsOf = (schema: unknown): ReadonlyArray<unknown> =>
  samplesOf(schema).map((sample) => JSON.parse(JSON.stringify((schema as Schema).parse(sample))))
