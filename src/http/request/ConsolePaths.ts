/** The paths of the console: its pages, and the files that they load. */

export const assetNames = ["console.js", "console.css", "icon.svg", "licenses.txt"] as const

/** The paths of the console, as the router writes them. */
export const consolePaths = [
  "/",
  "/streams",
  "/streams/:integration/:model",
  "/integrations",
  "/integrations/:integration",
  "/events",
  "/events/:position",
  "/holds",
  "/holds/:id",
  "/plugins",
  "/plugins/:plugin",
  "/dead-letters",
  "/dead-letters/:id",
  "/processes",
  "/audit",
  "/glossary"
] as const

export const assetPaths = assetNames.map((name) => `/console/${name}` as const)
