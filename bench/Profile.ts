/**
 * Groups the CPU profiles of a process, one for each thread, by what its functions do.
 *
 * Details
 * - A sample counts for the function that runs, not for its callers. Functions of the engine without a file, such as `JSON.parse`,
 *   count for their caller. Idle time and the start of the program are left out.
 * - The time that a thread waits for the disk inside SQLite is counted as its time.
 */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { table } from "./Table.ts"

interface ProfileNode {
  readonly id: number
  readonly callFrame: { readonly functionName: string; readonly url: string }
  readonly children?: ReadonlyArray<number>
}

interface CpuProfile {
  readonly nodes: ReadonlyArray<ProfileNode>
  readonly samples: ReadonlyArray<number>
  /** µs */
  readonly timeDeltas: ReadonlyArray<number>
}

/** The first pattern that matches the place of a function names its group. */
const groups: ReadonlyArray<readonly [pattern: RegExp, group: string]> = [
  [/^\(garbage collector\)/, "garbage collection"],
  [/^\(idle\)/, "idle"],
  [/^\(program\)|^\(root\)/, "the engine and the kernel (`(program)`)"],
  [/node:internal\/(modules|bootstrap|vm|process)|internal\/deps\/(amaro|cjs)|wasm:/, "start: loading modules"],
  [/node_modules\/(kafkajs|@platformatic)/, "Kafka client"],
  [/node_modules\/@effect\/sql-pg/, "PostgreSQL client"],
  [/node_modules\/(effect|@effect)/, "Effect"],
  [/src\/store\/sqlite\/SqliteDriver/, "SQLite (`store/sqlite`)"],
  [/src\/store\//, "statements and rows (`store`)"],
  [/src\/domain\//, "canonical form and differences (`domain`)"],
  [/src\/source\//, "requests and parsing of pages (`source`)"],
  [/src\/capture\//, "capture (`capture`)"],
  [/src\/publish\//, "relay and messages (`publish`)"],
  [/src\//, "the rest of the service"],
  [/node:internal\/crypto/, "hashes (Node)"],
  [/node:internal\/(worker|structured|per_context\/messageport)/, "messages between threads (Node)"],
  [/node:(buffer|internal\/(buffer|encoding|string_decoder|webidl))/, "bytes and text (Node)"],
  [
    /node:(net|stream|events|_http|https?|internal\/(stream|http|timers|process|deps\/undici))/,
    "HTTP and sockets (Node)"
  ],
  [/node:/, "the rest of Node"]
]
const rest = "everything else"
const groupOf = (place: string): string => groups.find(([pattern]) => pattern.test(place))?.[1] ?? rest

const timesOf = ({ nodes, samples, timeDeltas }: CpuProfile, times: Map<string, number>): void => {
  const parents = new Map(nodes.flatMap(({ children = [], id }) => children.map((child) => [child, id] as const)))
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const placeOf = (id: number): string => {
    const { functionName, url } = byId.get(id)!.callFrame
    const parent = parents.get(id)
    if (url !== "" || functionName.startsWith("(") || parent === undefined) return `${functionName} ${url}`
    const caller = placeOf(parent)
    return caller.startsWith("(") ? functionName : caller
  }
  samples.forEach((id, index) => {
    const group = groupOf(placeOf(id))
    times.set(group, (times.get(group) ?? 0) + timeDeltas[index]!)
  })
}

/** Prints the shares of the busy time of all threads, largest first; groups below 2 % are summed. */
export const printProfile = (folder: string, title: string): void => {
  const times = new Map<string, number>()
  for (const name of readdirSync(folder).filter((name) => name.endsWith(".cpuprofile"))) {
    timesOf(JSON.parse(readFileSync(join(folder, name), "utf8")), times)
  }
  times.delete("idle")
  const busy = [...times.values()].reduce((sum, time) => sum + time, 0)
  const shares = [...times].map(([group, time]) => [group, time / busy] as const).sort((a, b) => b[1] - a[1])
  const large = shares.filter(([group, share]) => share >= 0.02 && group !== rest)
  const small = 1 - large.reduce((sum, [, share]) => sum + share, 0)
  const rows = [...large, [rest, small] as const].map(([group, share]) => [group, `${(100 * share).toFixed(0)} %`])
  console.log(`\n${table([title, "share of the CPU time"], rows)}`)
}
