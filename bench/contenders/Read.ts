/**
 * The least work that a reader of the list can do: `fetch` and `JSON.parse` of every page, one after another.
 * `node bench/contenders/Read.ts <base address>`; prints its cost.
 */
import { pages, printCost } from "./Pages.ts"

let records = 0
for await (const results of pages(process.argv[2]!)) records += results.length
printCost({ records })
