/** The pages that the site has besides the Markdown files: lists of folders, sources that pages link to, and large parts of the reference. */
import { existsSync, globSync, statSync } from "node:fs"
import { dirname, extname, join } from "node:path"
import { link, read, root } from "./reference/Markdown.ts"

/** The Markdown files that are pages. */
export const pages: ReadonlyArray<string> = globSync(["*.md", "docs/**/*.md", "examples/README.md"], { cwd: root })

export const titleOf = (page: string): string => /^# (.*)$/m.exec(read(page))?.[1] ?? page

/** The path of a page, a folder or another file on the site. */
export const pathOf = (file: string): string =>
  `/${file.replace(/^docs\//, "").replace(/\.md$/, "").replace(/\.(?=\w+$)/, "-")}`.replace(
    /^\/(?=[A-Z]+$)/,
    "/project/"
  )

export const pagesIn = (folder: string): ReadonlyArray<string> => pages.filter((page) => dirname(page) === folder)

/** The parts of the reference that the program shows itself, with `--help` or over HTTP: they would be thousands of words in the repository. */
export const generated = {
  commands: "Commands",
  "operating-api": "Operating API",
  schemas: "Schemas",
  messages: "Messages"
}

/** The files and folders that a page links to. */
const linkedIn = (page: string): ReadonlyArray<string> =>
  [...read(page).matchAll(/(?<!!\[[^\]]*)\]\((?!\w+:|#)([^)#]+)/g)].map(([, target = ""]) =>
    join(dirname(page), target)
  )

const contentOf = (file: string): string =>
  statSync(join(root, file)).isDirectory()
    ? `# ${file.slice(file.lastIndexOf("/") + 1)}\n\n${
      pagesIn(file).map((page) => `- ${link(titleOf(page), pathOf(page))}`).join("\n")
    }\n`
    : `# ${file}\n\n\`\`\`${extname(file).slice(1)}\n${read(file)}\n\`\`\`\n`

/** Folders and sources by path, without the slash at its beginning. */
export const linkedPages = (): ReadonlyArray<readonly [path: string, content: string]> =>
  [...new Set(pages.flatMap(linkedIn))].filter((file) => !file.endsWith(".md") && existsSync(join(root, file)))
    .map((file) => [pathOf(file).slice(1), contentOf(file)])
