/** The sender of the current request, as far as the server knows. */
import * as Context from "effect/Context"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Option from "effect/Option"

/** `read` allows GET and HEAD only. */
export type Scope = "read" | "operate"

export interface Caller {
  readonly scope: Scope
  /** How the caller was authenticated, for the audit log. */
  readonly authenticatedBy: "read token" | "operate token" | "session" | "no token"
  /** The id of the session, if the caller was authenticated by one. */
  readonly session?: string
}

/** Null if the request carries no valid token, so it gets only what is public. */
export const CurrentCaller = Context.Reference<Caller | null>("rollcall/http/CurrentCaller", {
  defaultValue: () => null
})

/** The address of the connection; behind a proxy, that of the proxy. */
export const addressOf = ({ remoteAddress }: HttpServerRequest): string =>
  Option.getOrElse(remoteAddress, () => "unknown")
