/**
 * The doctor's check of the operating API's address: whether `rollcall start` can listen there, or a Rollcall process already does.
 *
 * Gotchas
 * - A process is recognized by its store, which every position of its event log names. A process of another store at the
 *   configured address means that one of the two settings is wrong.
 */
import * as Effect from "effect/Effect"
import { createServer } from "node:net"
import type * as Config from "../../config/Config.ts"
import { type LogIdentity, parsePosition } from "../../domain/ChangeEvent.ts"
import { display, withoutValue } from "../../domain/Quote.ts"
import type { ReadinessCheck } from "../../http/contract/Problem.ts"
import * as ApiClient from "../client/ApiClient.ts"
import { connectTo } from "../client/Connection.ts"
import { formatPlural } from "../terminal/Tables.ts"
import { type CheckResult, ok, problem, warning } from "./CheckResult.ts"

/** The Rollcall process at the configured address, if it uses the configured store. */
export interface OwnProcess {
  readonly url: string
  readonly checks: ReadonlyArray<typeof ReadinessCheck.Type>
}

interface AddressCheck {
  readonly results: ReadonlyArray<CheckResult>
  /** Null if no process of this store is running there. */
  readonly own: OwnProcess | null
}

const chooseAnother =
  "choose another address with ROLLCALL_HTTP_HOST and ROLLCALL_HTTP_PORT, or http in the configuration file"

/** Listens for a moment. Returns null if that is possible. */
const tryListening = (host: string, port: number) =>
  Effect.callback<NodeJS.ErrnoException | null>((resume) => {
    const server = createServer()
    server.once("error", (error) => resume(Effect.succeed(error)))
    server.listen({ host, port }, () => server.close(() => resume(Effect.succeed(null))))
  })

/** Requests the readiness and a log position from the program at the address. */
const askProgram = Effect.fnUntraced(function*({ tls, token, ...http }: Config.Settings["http"]) {
  const client = yield* connectTo({
    ...http,
    token: token?.initial[0] ?? null,
    tls: tls && { certFile: tls.certFile, caFile: null, client: tls.client }
  })
  return { url: client.url, ...yield* client.readiness, position: yield* client.newestPosition }
})

const seeStatus = "`rollcall status` shows the state of the process"

/** Why the process is not ready: a warning for each part, and one for all of its streams. */
export const notReady = (checks: OwnProcess["checks"]): ReadonlyArray<CheckResult> => {
  const failed = checks.filter(({ ok }) => !ok).map(({ name, reason }) => ({
    isStream: name.startsWith("stream "),
    // a hint at its end is a sentence, and the hint of this check follows
    reason: (reason ?? name).replace(/\.$/, "")
  }))
  const [first, ...others] = failed.filter(({ isStream }) => isStream)
  const more = others.length === 0
    ? ""
    : `; ${formatPlural(others.length, "other stream is", "other streams are")} not ready either`
  return [
    ...failed.filter(({ isStream }) => !isStream),
    ...first === undefined ? [] : [{ reason: `${first.reason}${more}` }]
  ].map(({ reason }) => warning("process", `is not ready: ${reason}`, seeStatus))
}

/** A warning if sweeps are late; the process is ready nevertheless. */
export const lateSweeps = (checks: OwnProcess["checks"]): ReadonlyArray<CheckResult> =>
  checks.flatMap(({ name, reason }) =>
    name !== "sweeps" || reason === null ? [] : [
      warning(
        "sweeps",
        reason.replace(/\.$/, ""),
        "If a sweep takes that long, raise sweepInterval; docs/runbooks/RollcallSweepsLate.md lists the causes"
      )
    ]
  )

const describeProgram = (
  address: string,
  { cause, checks, position, url }: Effect.Success<ReturnType<typeof askProgram>>,
  store: LogIdentity | null
): AddressCheck => {
  if (store === null || parsePosition(store, position) === "foreign") {
    return {
      own: null,
      results: [
        problem(
          "http",
          `${address} is used by a Rollcall process with another store`,
          `Check ROLLCALL_STORE; to run both, ${chooseAnother}`
        )
      ]
    }
  }
  return {
    own: { url, checks },
    results: [
      ok("http", `${address} is used by the running Rollcall process of this store`),
      ...cause === null ? [] : [warning("process", `is degraded: ${cause.replace(/\.$/, "")}`, seeStatus)],
      ...notReady(checks),
      ...lateSweeps(checks)
    ]
  }
}

const describeError = (address: string, error: Error): CheckResult => {
  const { hint = "", reason = "foreign" } = error instanceof ApiClient.ApiClientError ? error : {}
  switch (reason) {
    case "refused":
      return warning(
        "http",
        `${address} is in use, by a Rollcall process that refuses the token or the certificate of this command`,
        hint
      )
    case "unresponsive":
    case "interrupted":
      return warning("http", `${address} is in use, by a program that does not answer`, hint)
    default:
      return problem("http", `${address} is used by another program`, `Stop that program, or ${chooseAnother}`)
  }
}

/** `store`: the identity of the configured store; null if there is none yet. */
export const checkAddress = (
  http: Config.Settings["http"],
  store: LogIdentity | null
): Effect.Effect<AddressCheck> =>
  Effect.gen(function*() {
    const { host, port } = http
    const address = `${display(host)}:${port}`
    const error = yield* tryListening(host, port)
    if (error === null) return { own: null, results: [ok("http", `${address} is free`)] }
    if (error.code !== "EADDRINUSE") {
      return {
        own: null,
        results: [
          problem("http", `${address} cannot be opened: ${withoutValue(error.message, host)}`, chooseAnother)
        ]
      }
    }
    if (http.tls !== null && http.tls.clientCaFile !== null && http.tls.client === null) {
      const hint =
        "Set ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE and ROLLCALL_HTTP_TLS_CLIENT_KEY_FILE, so that the check can ask the program"
      return {
        own: null,
        results: [warning("http", `${address} is in use; what uses it is unknown without a certificate`, hint)]
      }
    }
    return yield* Effect.matchEager(askProgram(http), {
      onSuccess: (program) => describeProgram(address, program, store),
      onFailure: (error) => ({ own: null, results: [describeError(address, error)] })
    })
  })
