/**
 * Mutants: each removes one defense from the service, with patches of its sources, so that production code needs no switches. A patch
 * quotes a text of the sources and names no file, so code can move between files and folders.
 */
import { globSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { changeMutants } from "./ChangeMutants.ts"
import { deliveryMutants } from "./DeliveryMutants.ts"
import { type Mutant, noticedIn } from "./Mutant.ts"
import { publishingMutants } from "./PublishingMutants.ts"
import { readingMutants } from "./ReadingMutants.ts"

export const mutants: ReadonlyArray<Mutant> = [
  ...readingMutants,
  ...changeMutants,
  ...deliveryMutants,
  ...publishingMutants
]

export const mutantOf = (name: string): Mutant => {
  const found = mutants.find((mutant) => mutant.name === name)
  if (found === undefined) {
    throw new Error(`there is no mutant "${name}"; there are ${mutants.map((mutant) => mutant.name).join(", ")}`)
  }
  return found
}

/** A source file with those patches whose text it contains. */
export const patched = (mutant: Mutant, text: string): string =>
  mutant.patches.reduce((patched, { from, to }) => patched.replace(from, () => to), text)

/** Throws unless the text of every patch occurs exactly once in the sources. */
export const checkMutants = (): void => {
  for (const name of Object.keys(noticedIn)) mutantOf(name)
  const root = fileURLToPath(new URL("../../../src", import.meta.url))
  const sources = globSync("**/*.ts", { cwd: root })
    .filter((file) => !file.endsWith(".test.ts"))
    .map((file) => readFileSync(`${root}/${file}`, "utf8"))
  for (const { name, patches } of mutants) {
    for (const { from } of patches) {
      const found = sources.reduce((count, text) => count + text.split(from).length - 1, 0)
      if (found !== 1) throw new Error(`mutant "${name}": ${JSON.stringify(from)} is ${found} times in the sources`)
    }
  }
}
