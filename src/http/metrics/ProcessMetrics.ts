/**
 * The resources of this process, under the names that Prometheus clients of all languages use.
 *
 * Gotchas
 * - Limits and numbers of files are known on Linux only; elsewhere their series are missing.
 */
import * as Effect from "effect/Effect"
import { readdir, readFile } from "node:fs/promises"
import { getHeapStatistics } from "node:v8"
import type { Family } from "../../telemetry/MetricExport.ts"
import { type Exposition, gauge } from "./Exposition.ts"

const cpu: Family = {
  name: "process_cpu_seconds_total",
  description: "User and system processor time of the process",
  type: "counter"
}
const start = gauge("process_start_time_seconds", "Start of the process, since the Unix epoch")
const resident = gauge("process_resident_memory_bytes", "Resident memory of the process")
const openFiles = gauge("process_open_fds", "Open file descriptors of the process")
const maxFiles = gauge("process_max_fds", "Limit of open file descriptors of the process")
const heapUsed = gauge(
  "nodejs_heap_size_used_bytes",
  "Used heap of Node.js. If it grows for hours, a handler may leak memory: switch plugins off one by one, and restart after each"
)
const heapLimit = gauge("nodejs_heap_size_limit_bytes", "Limit of the heap of Node.js")

/** Seconds since the Unix epoch. */
const startedAt = Math.round(Date.now() - performance.now()) / 1000

const files = Effect.promise(async () => {
  try {
    const [open, limits] = await Promise.all([readdir("/proc/self/fd"), readFile("/proc/self/limits", "utf8")])
    const most = /^Max open files\s+(\d+|unlimited)/m.exec(limits)?.[1]
    return { open: open.length, most: most === "unlimited" ? Infinity : Number(most) }
  } catch {
    return null
  }
})

export const writeProcessMetrics = Effect.fnUntraced(function*(out: Exposition) {
  const { system, user } = process.cpuUsage()
  out.set(cpu, (user + system) / 1e6)
  out.set(start, startedAt)
  out.set(resident, process.memoryUsage.rss())
  const known = yield* files
  if (known !== null) {
    out.set(openFiles, known.open)
    if (!Number.isNaN(known.most)) out.set(maxFiles, known.most)
  }
  const { heap_size_limit, used_heap_size } = getHeapStatistics()
  out.set(heapUsed, used_heap_size)
  out.set(heapLimit, heap_size_limit)
})
