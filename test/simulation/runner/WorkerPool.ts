/** Distributes worlds over processes, one for each core. */
import { fork } from "node:child_process"
import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import type { Verdict } from "../Simulation.ts"

export interface WorkerPoolOptions {
  readonly from: number
  readonly worlds: number
  /** Which seeds are run; by default all of them. */
  readonly wanted?: (seed: number) => boolean
  readonly mutant?: string | undefined
  /** Processes; by default one for each core. */
  readonly processes?: number
  readonly onVerdict: (verdict: Verdict) => void
  /** Checked before each world: true ends the run. */
  readonly enough?: () => boolean
}

/**
 * The first seed of a run without `--from`: random, so that hardly anyone has run it before. The worlds that were run while the code
 * was written find nothing more.
 */
export const randomFirstSeed = (): number => 1_000_000 + Math.floor(Math.random() * 1_000_000_000)

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url))
/** Worlds queued in one process, so that the next one is ready when one ends. */
const worldsPerWorker = 2

export const runWorlds = async (
  {
    enough = () => false,
    from,
    mutant,
    onVerdict,
    processes = availableParallelism(),
    wanted = () => true,
    worlds
  }: WorkerPoolOptions
): Promise<void> => {
  let remaining = worlds
  let seed = from
  const nextSeed = (): number => {
    remaining--
    while (!wanted(seed)) seed++
    return seed++
  }
  const workers = Array.from(
    { length: Math.min(processes, worlds) },
    () =>
      new Promise<void>((resolve, reject) => {
        const worker = fork(here("./Worker.ts"), {
          execArgv: mutant === undefined ? [] : ["--import", here("../mutants/MutantHook.ts")],
          env: { ...process.env, ...(mutant === undefined ? {} : { ROLLCALL_MUTANT: mutant }) }
        })
        let open = 0
        const sendNext = () => {
          if (remaining > 0 && !enough()) {
            open++
            worker.send(nextSeed())
          } else if (open === 0 && worker.connected) worker.disconnect()
        }
        worker.on("message", (verdict: Verdict) => {
          open--
          onVerdict(verdict)
          sendNext()
        })
        worker.on("error", reject)
        worker.on("exit", (code) => code === 0 ? resolve() : reject(new Error(`a worker ended with ${code}`)))
        for (let i = 0; i < worldsPerWorker; i++) sendNext()
      })
  )
  await Promise.all(workers)
}
