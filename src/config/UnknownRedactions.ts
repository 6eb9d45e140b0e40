/**
 * Finds redaction rules that name no field of their model. A misspelled pointer removes nothing, so personal data that the operator
 * believes to be removed is stored and published.
 *
 * Gotchas
 * - Rollcall warns about such a rule but applies it, because the API may send fields that our schema lacks (S1).
 * - Below `custom_fields`, `integration_fields`, `remote_data` and every other value of free form, any name is possible. Below a value
 *   without fields, such as a text, a rule removes the value (see `domain/Redaction.ts`), so it is not reported.
 */
import type * as SchemaAST from "effect/SchemaAST"
import { fieldsOf } from "../api/Fields.ts"
import { modelSchemas } from "../api/ModelSchemas.ts"
import { closestName, distanceOf } from "../domain/ClosestName.ts"
import { segments } from "../domain/Diff.ts"
import { type Model, modelNames } from "../domain/Model.ts"
import { display } from "../domain/Quote.ts"
import type { Settings } from "./Config.ts"
import type { Fault, RawConfig } from "./RawConfig.ts"

type Fields = ReadonlyMap<string, SchemaAST.AST>

/** Maximum edit distance from a known name at which a name is treated as misspelled. */
const maxDistance = 2
const maxSuggested = 3

/** All pointers of these fields, and of the fields below them. */
const pointersOf = (fields: Fields, above = ""): ReadonlyArray<string> =>
  [...fields].flatMap(([name, ast]) => {
    const pointer = `${above}/${name}`
    return [pointer, ...pointersOf(fieldsOf(ast) ?? new Map(), pointer)]
  })

interface Unknown {
  readonly name: string
  /** The known fields of the object that lacks the name. */
  readonly fields: Fields
  /** The pointer of that object. */
  readonly above: string
}

/** The first name of the pointer that the schema does not have; null if it may have all of them. */
const findUnknown = (model: Model, pointer: string): Unknown | null => {
  let ast: SchemaAST.AST | undefined = modelSchemas[model].ast
  let above = ""
  for (const name of segments(pointer)) {
    const fields = fieldsOf(ast)
    if (fields === null) return null
    ast = fields.get(name)
    if (ast === undefined) return { name, fields, above }
    above += `/${name}`
  }
  return null
}

/** The pointers that were probably meant: those that end with a similar name, else the most similar field of the same object. */
const suggested = (model: Model, { above, fields, name }: Unknown): ReadonlyArray<string> => {
  const alike = pointersOf(fieldsOf(modelSchemas[model].ast) ?? new Map()).filter((pointer) =>
    distanceOf(name, segments(pointer).at(-1) ?? "") <= maxDistance
  )
  const beside = [...fields.keys()]
  if (alike.length === 0) {
    return [`${above}/${beside.find((known) => known.includes(name)) ?? closestName(name, beside)}`]
  }
  const nearest = alike.filter((pointer) => pointer.startsWith(`${above}/`))
  return [...new Set([...nearest, ...alike])].slice(0, maxSuggested)
}

/** `file`: the configuration file, the only source of redaction rules. */
export const findUnknownRedactions = (
  { file }: Pick<RawConfig, "file">,
  models: Settings["models"]
): ReadonlyArray<Fault> =>
  modelNames.flatMap((model) =>
    Object.keys(models[model]?.redact ?? {}).flatMap((pointer) => {
      const unknown = findUnknown(model, pointer)
      if (unknown === null) return []
      const meant = suggested(model, unknown).join(" or ")
      return [{
        where: `${file === null ? "" : `${file.name}, `}models["${model}"].redact["${display(pointer)}"]`,
        message: `names no field of ${model} that Rollcall knows, so the rule probably removes nothing`,
        hint: `Did you mean ${meant}? If the records have this field, there is nothing to do`
      }]
    })
  )
