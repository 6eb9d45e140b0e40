/**
 * A SQLite connection in a separate thread: if the disk is slow to confirm a commit, only that thread waits.
 *
 * Invariants
 * 1. Statements run one at a time, in the order in which they were sent
 * 2. A caller waits for the statements that it sent, even if it is interrupted, so no statement runs after the interruption
 * 3. Once the thread has ended, for any reason, every request fails with `ThreadEnded`, including those already sent
 */
import * as Effect from "effect/Effect"
import { extname } from "node:path"
import { Worker } from "node:worker_threads"
import type { Answer, Session } from "./SqliteDriver.ts"
import type { Reply, Request, SerializedError } from "./SqliteThreadMain.ts"

/** The connection is permanently lost. */
export class ThreadEnded extends Error {
  /** The code of the error that ended the thread, such as `ERR_WORKER_OUT_OF_MEMORY`, or its class. */
  readonly why: string
  constructor(cause: unknown) {
    super("the thread of the database ended", { cause })
    const { code, name } = (cause ?? {}) as { readonly code?: string; readonly name?: string }
    this.why = code ?? name ?? "without an error"
  }
}

/** `.ts` when run from source, `.js` after a build. */
const main = new URL(`./SqliteThreadMain${extname(import.meta.url)}`, import.meta.url)

/** The error as the driver threw it. */
const errorOf = ({ errcode, message }: SerializedError): Error =>
  Object.assign(new Error(message), errcode === undefined ? {} : { errcode })

/** A connection to `file`, which is created if it does not exist. Fails with the errors that the driver throws. */
export const open = (file: string): Effect.Effect<Session, unknown> =>
  Effect.suspend(() => {
    const worker = new Worker(main, { workerData: file, name: "sqlite" })
    const waiting: Array<(answer: Effect.Effect<Answer, unknown>) => void> = []
    let isTransaction = false
    let fault: unknown = undefined
    let ended: ThreadEnded | null = null

    worker.on("message", (reply: Reply) => {
      isTransaction = reply.isTransaction
      const { failure, results } = reply
      waiting.shift()?.(Effect.succeed(failure === null ? { results } : { results, failure: errorOf(failure) }))
    })
    worker.on("error", (cause) => (fault = cause))
    // after a reply that cannot be read, later replies would be matched with the wrong statements
    worker.on("messageerror", (cause) => {
      fault = cause
      void worker.terminate()
    })
    worker.on("exit", () => {
      isTransaction = false
      ended = new ThreadEnded(fault)
      for (const resume of waiting.splice(0)) resume(Effect.fail(ended))
    })

    /** Sends a request and registers for its reply in one step, so that replies arrive in the order of the waiting requests. */
    const reply = (send: () => void): Effect.Effect<Answer, unknown> =>
      Effect.uninterruptible(Effect.callback((resume) => {
        if (ended !== null) return resume(Effect.fail(ended))
        try {
          send()
        } catch (cause) {
          // a value that cannot be sent
          return resume(Effect.fail(cause))
        }
        waiting.push(resume)
      }))
    const send = (request: Request) => worker.postMessage(request)

    const opened = Effect.flatMap(
      reply(() => undefined),
      (answer) => "failure" in answer ? Effect.fail(answer.failure) : Effect.void
    )
    return Effect.as(opened, {
      run: (statements) => reply(() => send(statements)),
      isTransaction: () => isTransaction,
      close: Effect.callback((resume) => {
        if (ended !== null) return resume(Effect.void)
        worker.once("exit", () => resume(fault === undefined ? Effect.void : Effect.die(fault)))
        send(null)
      })
    })
  })
