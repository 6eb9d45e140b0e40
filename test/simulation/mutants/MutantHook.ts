/** Loaded with `--import` before anything else: removes the defense of the mutant `ROLLCALL_MUTANT` from the service's sources. */
import { registerHooks } from "node:module"
import { mutantOf, patched } from "./Mutants.ts"

const name = process.env["ROLLCALL_MUTANT"]
const root = new URL("../../../src/", import.meta.url).href

if (name !== undefined) {
  const mutant = mutantOf(name)
  registerHooks({
    load: (url, context, next) => {
      const loaded = next(url, context)
      if (!url.startsWith(root) || loaded.source === undefined || loaded.source === null) return loaded
      return { ...loaded, source: patched(mutant, Buffer.from(loaded.source as Uint8Array).toString()) }
    }
  })
}
