/**
 * The documentation site: the Markdown files of this repository, unchanged, and the pages of `AddedPages.ts`. A link without a target fails
 * the build.
 *
 * Gotchas
 * - Headings get the names that GitHub gives them, because links to headings must work in both places.
 */
import { renderMermaidSVG } from "beautiful-mermaid"
import { existsSync } from "node:fs"
import { basename, dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { type DefaultTheme, defineConfig } from "vitepress"
import { generated, pagesIn, pathOf, titleOf } from "../AddedPages.ts"
import { read, root } from "../reference/Markdown.ts"

const itemOf = (page: string): DefaultTheme.SidebarItem => ({ text: titleOf(page), link: pathOf(page) })

/** The links of `docs/index.md`, in its groups. */
const guides = read("docs/index.md").split(/^## /m).flatMap((part, index) => {
  const links = [...part.matchAll(/\]\((?!\w+:|#)([^)#]+)/g)].map(([, link = ""]) => join("docs", link))
  const items = links.map((target): DefaultTheme.SidebarItem =>
    target.endsWith(".md")
      ? itemOf(target)
      : { text: basename(target), link: pathOf(target), collapsed: true, items: pagesIn(target).map(itemOf) }
  )
  return items.length === 0 ? [] : [{ text: index === 0 ? "Start" : part.slice(0, part.indexOf("\n")), items }]
})

const reference = {
  text: "Reference",
  items: [
    ...pagesIn("docs/reference").map(itemOf),
    ...Object.entries(generated).map(([name, text]) => ({ text, link: `/reference/${name}` }))
  ]
}

const headingName = (text: string): string =>
  text.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(" ", "-")

export default defineConfig({
  title: "Rollcall",
  description: "The change feed that a polled HR, recruiting, assessment and learning API does not have",
  srcDir: "..",
  srcExclude: ["{bench,console,deploy,plugins,src,templates,test}/**"],
  rewrites: { "docs/:path*": ":path*", "site/pages/:path*": ":path*", ":page.md": "project/:page.md" },
  cleanUrls: true,
  ignoreDeadLinks: "localhostLinks",
  markdown: {
    html: false,
    attrs: { disable: true },
    anchor: { slugify: headingName },
    config: (md) => {
      const { fence } = md.renderer.rules
      md.renderer.rules.fence = (tokens, index, ...others) => {
        const { content = "", info } = tokens[index] ?? {}
        if (info !== "mermaid") return fence?.(tokens, index, ...others) ?? ""
        // an image keeps the styles of the diagram to itself; a page loads nothing from other servers
        const svg = renderMermaidSVG(content).replace(/@import url\([^)]*\);/, "")
        const source = `data:image/svg+xml;base64,${Buffer.from(svg).toString("base64")}`
        return `<div style="overflow-x: auto"><img alt="diagram" style="max-width: none" src="${source}"></div>`
      }
      // links between files become links between pages
      md.core.ruler.push("page-links", ({ env, tokens }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const [path = "", name] = token.attrGet("href")?.split("#") ?? []
          const file = join(dirname(env.realPath ?? env.path), path)
          if (path === "" || /^(\w+:|\/)/.test(path) || !existsSync(file)) continue
          token.attrSet("href", pathOf(relative(root, file)) + (name === undefined ? "" : `#${name}`))
        }
      })
    }
  },
  themeConfig: { search: { provider: "local" }, outline: [2, 3], sidebar: [...guides, reference] },
  vite: {
    plugins: [{
      name: "vue-of-pages",
      enforce: "pre",
      // pages are outside of this folder, which has the packages; the build's own renderer loads them when it runs
      resolveId(id, importer, options) {
        if (!/^vue(\/|$)/.test(id)) return null
        if (options.ssr === true) return { id, external: true }
        return /\.md($|\?)/.test(importer ?? "")
          ? this.resolve(id, fileURLToPath(import.meta.url), { ...options, skipSelf: true })
          : null
      }
    }]
  }
})
