import { createRequire } from "node:module"

/** The version of this package. The package.json is three folders up from both `src/http/contract` and `dist/http/contract`. */
export const { version }: { readonly version: string } = createRequire(import.meta.url)("../../../package.json")
