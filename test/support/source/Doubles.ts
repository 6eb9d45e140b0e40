import * as Effect from "effect/Effect"
import { RawRow } from "../../../src/domain/RawRow.ts"
import {
  type Page,
  type SendHooks,
  type Source,
  SourceError,
  Unsupported,
  WriteError
} from "../../../src/source/Source.ts"

/** For writes that need no record in a journal. */
export const noHooks: SendHooks<never> = { before: Effect.void, onNoEffect: Effect.void }

const unsupported = (name: string) => new Unsupported({ code: null, message: `${name} is not offered` })

/** A page whose rows are values, or rows. */
export interface ParsedPage extends Omit<Page, "results"> {
  readonly results: ReadonlyArray<unknown>
}
export const toPage = (page: ParsedPage): Page => ({
  ...page,
  results: page.results.map((row) => row instanceof RawRow ? row : RawRow.of(row))
})

export const valuesOf = ({ results }: Pick<Page, "results">): ReadonlyArray<unknown> =>
  results.map(({ value }) => value)

/** A source that supports only lists: every other read and every write fails with `Unsupported`. */
export const listsOnly = (page: Source["Service"]["page"]): Source["Service"] => ({
  page,
  read: ({ read }) => Effect.fail(new SourceError({ reason: unsupported(read) })),
  write: ({ write }) => Effect.fail(new WriteError({ reason: unsupported(write) }))
})
