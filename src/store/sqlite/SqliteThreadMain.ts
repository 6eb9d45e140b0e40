/**
 * The main module of a SQLite connection's thread. It opens the file, then answers requests in the order of arrival. The first
 * reply reports whether the file could be opened; each further reply answers one request.
 *
 * Gotchas
 * - An error keeps only its message when it is sent to another thread, so SQLite's result code is sent separately.
 */
import { parentPort, workerData } from "node:worker_threads"
import { type Driver, open, runAll, type Statement, type StatementResult } from "./SqliteDriver.ts"

/** Statements to run; null to close the file and end the thread. */
export type Request = ReadonlyArray<Statement> | null

export interface SerializedError {
  readonly message: string
  readonly errcode: number | undefined
}

export interface Reply {
  readonly results: ReadonlyArray<StatementResult>
  readonly failure: SerializedError | null
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
    const answer = runAll(driver, request)
    send({
      results: answer.results,
      failure: "failure" in answer ? failureOf(answer.failure) : null,
      isTransaction: driver.isTransaction()
    })
  })
  send({ results: [], failure: null, isTransaction: false })
}

try {
  serve(open(workerData))
} catch (cause) {
  send({ results: [], failure: failureOf(cause), isTransaction: false })
}
