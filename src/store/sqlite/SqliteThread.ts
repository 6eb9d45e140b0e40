/**
 * A SQLite connection in a thread of its own: a disk that is slow to confirm a commit keeps that thread waiting, and
 * nothing else.
 *
 * Invariants
 * 1. Statements run one after the other, in the order in which they were sent
 * 2. A statement that was sent is waited for: after an interruption none is still to run
 * 3. Once the thread has ended, however it ended, every statement fails with `ThreadEnded`, also those that were sent
 */
import * as Effect from "effect/Effect"
import { extname } from "node:path"
import { Worker } from "node:worker_threads"
import type { Session, StatementResult } from "./SqliteDriver.ts"
import type { Reply, Request, SerializedError } from "./SqliteThreadMain.ts"

/** The connection is lost for good. */
export class ThreadEnded extends Error {
  /** The code of the error that ended the thread, such as `ERR_WORKER_OUT_OF_MEMORY`, or its class. */
  readonly why: string
  constructor(cause: unknown) {
    super("the thread of the database ended", { cause })
    const { code, name } = (cause ?? {}) as { readonly code?: string; readonly name?: string }
    this.why = code ?? name ?? "without an error"
  }
}

/** `.ts` in a clone, `.js` where it was built. */
const main = new URL(`./SqliteThreadMain${extname(import.meta.url)}`, import.meta.url)

const isFailure = (answer: StatementResult | SerializedError): answer is SerializedError => "message" in answer

/** As the driver throws it. */
const errorOf = ({ errcode, message }: SerializedError): Error =>
  Object.assign(new Error(message), errcode === undefined ? {} : { errcode })

/** A connection to `file`, made if it does not exist. Fails with what the driver throws. */
export const open = (file: string): Effect.Effect<Session, unknown> =>
  Effect.suspend(() => {
    const worker = new Worker(main, { workerData: file, name: "sqlite" })
    const waiting: Array<(answer: Effect.Effect<StatementResult, unknown>) => void> = []
    let isTransaction = false
    let fault: unknown = undefined
    let ended: ThreadEnded | null = null

    worker.on("message", (reply: Reply) => {
      isTransaction = reply.isTransaction
      const { result } = reply
      waiting.shift()?.(
        isFailure(result)
          ? Effect.fail(errorOf(result))
          : Effect.succeed(result)
      )
    })
    worker.on("error", (cause) => (fault = cause))
    // the replies that follow one that cannot be read would be taken for answers to other statements
    worker.on("messageerror", (cause) => {
      fault = cause
      void worker.terminate()
    })
    worker.on("exit", () => {
      isTransaction = false
      ended = new ThreadEnded(fault)
      for (const resume of waiting.splice(0)) resume(Effect.fail(ended))
    })

    /** Sends, and waits for the reply; the two belong together, so that replies come in the order of what waits. */
    const reply = (send: () => void): Effect.Effect<StatementResult, unknown> =>
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

    return Effect.as(reply(() => undefined), {
      run: (sql, params) => reply(() => send([sql, params])),
      isTransaction: () => isTransaction,
      close: Effect.callback((resume) => {
        if (ended !== null) return resume(Effect.void)
        worker.once("exit", () => resume(fault === undefined ? Effect.void : Effect.die(fault)))
        send(null)
      })
    })
  })
