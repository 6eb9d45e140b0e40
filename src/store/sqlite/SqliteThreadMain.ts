/**
 * What runs in the thread of a SQLite connection: opens the file it was given, then runs statements in the order in which
 * they arrive. The first reply says whether the file was opened, each further one is the answer to one request.
 *
 * Gotchas
 * - An error loses all but its message on the way to another thread: SQLite's result code is sent beside it.
 */
import { parentPort, workerData } from "node:worker_threads"
import { type Driver, open, type StatementResult } from "./SqliteDriver.ts"

/** A statement to run; null = close the file and end. */
export type Request = readonly [sql: string, params: ReadonlyArray<unknown>] | null

export interface SerializedError {
  readonly message: string
  readonly errcode: number | undefined
}

export interface Reply {
  readonly result: StatementResult | SerializedError
  /** Whether a transaction is open now. */
  readonly isTransaction: boolean
}

const port = parentPort!
const reply = (what: Reply) => port.postMessage(what)

const failureOf = (cause: unknown): SerializedError => {
  const { errcode, message } = cause as Error & { readonly errcode?: number }
  return { message, errcode }
}

const serve = (driver: Driver) => {
  port.on("message", (request: Request) => {
    if (request === null) {
      driver.close()
      // ends this thread only, whatever else was loaded into it
      process.exit()
    }
    let result: StatementResult | SerializedError
    try {
      result = driver.run(...request)
    } catch (cause) {
      result = failureOf(cause)
    }
    reply({ result, isTransaction: driver.isTransaction() })
  })
  reply({ result: { rows: [], wrote: false }, isTransaction: false })
}

try {
  serve(open(workerData))
} catch (cause) {
  reply({ result: failureOf(cause), isTransaction: false })
}
