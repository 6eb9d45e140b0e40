import { createRequire } from "node:module"

/** The version of this package. Its package.json is two folders up, both from `src/http/` and from `dist/http/`. */
export const { version }: { readonly version: string } = createRequire(import.meta.url)("../../package.json")
