import { createRequire } from "node:module"

/** The version of this package. The package.json is two folders up from both `src/http/` and `dist/http/`. */
export const { version }: { readonly version: string } = createRequire(import.meta.url)("../../package.json")
