/** Values of a record, before and after a change. */
export const masked = "••••••"

export const textOf = (value: unknown): string =>
  value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value, null, 2)

export const Value = ({ value }: { readonly value: unknown }) => <pre>{textOf(value)}</pre>

/** Says which kind of nothing a side of a change is. */
const sideOf = (value: unknown): string =>
  value === undefined ? "no property" : value === null ? "null" : value === "" ? "empty text" : textOf(value)

/** One changed path in a line. */
export const Change = ({ after, before, path }: {
  readonly path: string
  readonly before: unknown
  readonly after: unknown
}) => (
  <div class="change">
    <code>{path}</code> <del>{sideOf(before)}</del> → <ins>{sideOf(after)}</ins>
  </div>
)

/** Why a record counts as deleted. */
export const deletions: Readonly<Record<string, string>> = {
  flagged: "marked as deleted by the API",
  absent: "no longer shown by the API",
  erased: "shown without content by the API"
}
