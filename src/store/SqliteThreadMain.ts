/**
 * What runs in the thread of a SQLite connection: opens the file it was given, then runs statements in the order in which
 * they arrive. The first reply says whether the file was opened, each further one is the answer to one request.
 *
 * Gotchas
 * - An error loses all but its message on the way to another thread: SQLite's result code is sent beside it.
 */
import { parentPort, workerData } from "node:worker_threads"
import { type Answer, type Driver, open } from "./SqliteDriver.ts"

/** A statement to run; null = close the file and end. */
export type Request = readonly [sql: string, params: ReadonlyArray<unknown>] | null

export interface Failure {
  readonly message: string
  readonly errcode: number | undefined
}

export interface Reply {
  readonly answer: Answer | Failure
  /** Whether a transaction is open now. */
  readonly isTransaction: boolean
}

const port = parentPort!
const reply = (what: Reply) => port.postMessage(what)

const failureOf = (cause: unknown): Failure => {
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
    let answer: Answer | Failure
    try {
      answer = driver.run(...request)
    } catch (cause) {
      answer = failureOf(cause)
    }
    reply({ answer, isTransaction: driver.isTransaction() })
  })
  reply({ answer: { rows: [], wrote: false }, isTransaction: false })
}

try {
  serve(open(workerData))
} catch (cause) {
  reply({ answer: failureOf(cause), isTransaction: false })
}
