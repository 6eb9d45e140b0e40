/**
 * The main module of a SQLite connection's thread. It opens the file, then runs statements in the order of arrival. The first
 * reply reports whether the file could be opened; each further reply answers one request.
 *
 * Gotchas
 * - An error keeps only its message when it is sent to another thread, so SQLite's result code is sent separately.
 */
import { parentPort, workerData } from "node:worker_threads"
import { type Driver, open, type StatementResult } from "./SqliteDriver.ts"

/** A statement to run, once for each row if the rows have `columns` values; null to close the file and end the thread. */
export type Request = readonly [sql: string, values: ReadonlyArray<unknown>, columns?: number] | null

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
const send = (reply: Reply) => port.postMessage(reply)

const failureOf = (cause: unknown): SerializedError => {
  const { errcode, message } = cause as Error & { readonly errcode?: number }
  return { message, errcode }
}

const serve = (driver: Driver) => {
  port.on("message", (request: Request) => {
    if (request === null) {
      driver.close()
      // in a worker thread this ends only the thread, even if other modules keep it busy
      process.exit()
    }
    const [sql, values, columns] = request
    let result: StatementResult | SerializedError
    try {
      result = columns === undefined ? driver.run(sql, values) : driver.runForEachRow(sql, values, columns)
    } catch (cause) {
      result = failureOf(cause)
    }
    send({ result, isTransaction: driver.isTransaction() })
  })
  send({ result: { columns: [], rows: [], wrote: false }, isTransaction: false })
}

try {
  serve(open(workerData))
} catch (cause) {
  send({ result: failureOf(cause), isTransaction: false })
}
