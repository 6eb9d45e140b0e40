/**
 * The least work that a reader of the list can do: `fetch` and `JSON.parse` of every page, one after another.
 * `node bench/contenders/Read.ts <base address>`; prints its cost.
 */
import { pages, printCost } from "./Pages.ts"

for await (const _ of pages(process.argv[2]!));
printCost()
