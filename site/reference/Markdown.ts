/** Reading files, and Markdown, for all pages. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("../..", import.meta.url))

export const read = (file: string): string => readFileSync(join(root, file), "utf8")

export const link = (text: string, target: string): string => `[${text}](${target})`

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll(/\s*\n\s*/g, " ")

/** Columns that are empty in every row are left out. */
export const table = (header: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const used = header.map((_, column) => rows.some((row) => row[column] !== ""))
  const line = (cells: ReadonlyArray<string>) =>
    `| ${cells.filter((_, column) => used[column]).map(cell).join(" | ")} |`
  return [line(header), `|${"---|".repeat(used.filter(Boolean).length)}`, ...rows.map(line), ""].join("\n")
}
