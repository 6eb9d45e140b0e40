/** Keeps the commands and their results on one page, with a section for each command that writes to it. */
import { existsSync, readFileSync, writeFileSync } from "node:fs"

const title = `# Fidelity

Commands generate this page: each section names its command. The numbers are explained in
[simulation.md](simulation.md).
`

const read = (file: string): string => existsSync(file) ? readFileSync(file, "utf8") : title

/** The rows of the table in a section, by the text of their first cell. */
export const readRows = (file: string, heading: string): ReadonlyMap<string, string> => {
  const section = read(file).split(/^(?=## )/m).find((section) => section.startsWith(`## ${heading}\n`)) ?? ""
  const rows = section.split("\n").filter((line) => line.startsWith("| ")).slice(2)
  return new Map(rows.map((row) => [row.split(" | ")[0]!.slice(2), row]))
}

/** Replaces the section under \`## <heading>\`, or adds it. */
export const writeSection = (file: string, heading: string, text: string): void => {
  const [head, ...sections] = read(file).split(/^(?=## )/m)
  const section = `## ${heading}\n\n${text.trim()}\n`
  const others = sections.filter((other) => !other.startsWith(`## ${heading}\n`))
  const at = sections.findIndex((other) => other.startsWith(`## ${heading}\n`))
  others.splice(at < 0 ? others.length : at, 0, section)
  writeFileSync(file, [head!, ...others].map((part) => part.trimEnd()).join("\n\n") + "\n")
}
