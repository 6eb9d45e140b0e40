/** The lists of the API that the configuration defines, in addition to the built-in models. */
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import { builtInModels } from "../domain/BuiltInModels.ts"
import { type AnyList, entryOf, isDefinedList } from "../domain/DefinedList.ts"
import { isModelName, type ListEntry, makeModels, type Models, titleOf } from "../domain/Model.ts"
import { display } from "../domain/Quote.ts"
import type { ConfigValue } from "./ConfigValue.ts"

const nameHint =
  "A name is <category>.<name>, such as hris.employee: lower-case letters, digits and underscores, at most 64 characters"
const otherNameHint = "Choose another name for the list, such as one with a further word"
const pathHint = "Write the path below the base URL, such as /hris/employees, without a query"

/** The names of steps that every model has, and of topics and schemas. */
const reservedSteps: ReadonlySet<string> = new Set(["created", "updated", "deleted", "state", "event"])

/** The endings of the names that the documents of Kafka and HTTP make for a model from the name of its records' type. */
const typeEndings = ["", "Event", "EventData", "State", "Envelope", "CurrentRecord", "ChangeContent"]
export const typeNamesOf = (title: string) => typeEndings.map((ending) => title + ending)

/** A list of the file, or of the variable: `hris.employee=/hris/employees`. */
const parseList = (item: ConfigValue): AnyList | undefined => {
  if (!item.isVariable) {
    if (isDefinedList(item.value)) return item.value
    item.fault("is not a list", "List the result of `defineList(…)`")
    return undefined
  }
  const text = item.text() ?? ""
  const at = text.indexOf("=")
  if (at < 0) {
    item.fault(`"${text}" is not a list`, "Write <name>=<path>, such as hris.employee=/hris/employees")
    return undefined
  }
  return { model: text.slice(0, at).trim() as AnyList["model"], definition: { path: text.slice(at + 1).trim() } }
}

const Names = Schema.Array(Schema.NonEmptyString)
/** Names with dots between them. */
const Path = Schema.String.check(Schema.isPattern(/^[^.]+(\.[^.]+)*$/))
const Reference = Schema.Struct({ path: Path, kind: Schema.String, shared: Names })
const Transition = Schema.Struct({ path: Path, becomes: Schema.optional(Names) })

/** The form of the optional parts. TypeScript finds the same mistakes. */
const faultIn = ({ references, schema, sweepOnly, transitions, unordered }: AnyList["definition"]): string | null => {
  const fits = (part: unknown, form: Schema.Codec<unknown, unknown>) => part === undefined || Schema.is(form)(part)
  if (schema !== undefined && !(Schema.isSchema(schema) && "fields" in schema)) {
    return "has a schema that is not a Schema.Struct"
  }
  if (!fits(unordered, Names)) return "has an `unordered` that is not a list of names"
  if (!fits(sweepOnly, Schema.Boolean)) return "has a `sweepOnly` that is not true or false"
  if (!fits(references, Schema.Array(Reference))) return "has a reference without path, kind or shared properties"
  for (const [name, step] of Object.entries(transitions ?? {})) {
    if (!/^[a-z][a-z0-9_]*$/.test(name) || reservedSteps.has(name)) return `has a transition with the name ${name}`
    if (!Schema.is(Transition)(step)) {
      return `has no path, or a value of becomes that is not a list of texts, in the transition ${name}`
    }
  }
  return null
}

/** Why a list cannot be read beside `others`, and what to do about that; null if it can. */
export const findListFault = (
  { definition, model }: AnyList,
  others: Models
): { readonly message: string; readonly hint: string } | null => {
  const report = (message: string, hint: string) => ({ message, hint })
  const { path } = definition
  if (typeof path !== "string" || !/^(\/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$/.test(path)) {
    return report(`"${display(model)}" has the path "${display(String(path))}"`, pathHint)
  }
  if (!isModelName(model)) return report(`"${display(model)}" cannot be the name of a list`, nameHint)
  if (/^(rollcall|sqlite)\./.test(model)) {
    return report(
      `"${model}" begins with a reserved word`,
      "Choose another category: an export has tables with such names"
    )
  }
  if (builtInModels.listOf(model) !== undefined) {
    return report(`"${model}" is a built-in model`, "Remove it: Rollcall reads it without a definition")
  }
  if (others.listOf(model) !== undefined) {
    return report(`"${model}" is defined twice`, "Remove one of the two definitions")
  }
  const names = new Set(typeNamesOf(titleOf(model)))
  for (const other of others.entries) {
    const title = SchemaAST.resolveIdentifier(other.schema.ast)
    const same = other.model === model || title === undefined
      ? undefined
      : typeNamesOf(title).find((name) => names.has(name))
    if (same !== undefined) {
      return report(`"${model}" has a type with the same name as one of "${other.model}": ${same}`, otherNameHint)
    }
  }
  const same = others.lists.find((other) => other.path === path)
  if (same !== undefined) return report(`"${model}" has the path of "${same.model}"`, "Define one model for each path")
  const fault = faultIn(definition)
  return fault === null ? null : report(`"${model}" ${fault}`, "Correct the definition of the list")
}

/** The models that this process knows. */
export const parseLists = (lists: ConfigValue): Models => {
  const defined: Array<ListEntry> = []
  const all = () => makeModels([...builtInModels.entries, ...defined])
  for (const item of [...lists.items(), ...lists.variable("ROLLCALL_LISTS").items()]) {
    const list = parseList(item)
    if (list === undefined) continue
    const fault = findListFault(list, all())
    if (fault === null) defined.push(entryOf(list))
    else item.fault(fault.message, fault.hint)
  }
  return defined.length === 0 ? builtInModels : all()
}
