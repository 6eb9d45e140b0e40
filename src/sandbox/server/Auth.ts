/**
 * Authentication and authorization: the key, the integration, the endpoints that the integration offers, and the permissions of the
 * account.
 *
 * Source: docs/contract.md, "Authentication".
 */
import * as Result from "effect/Result"
import { ApiError, apiError, invalidInput } from "../world/ApiError.ts"
import type { World } from "../world/World.ts"
import type { Account } from "./Account.ts"
import type { Endpoint } from "./Endpoints.ts"

type Headers = Readonly<Record<string, string | undefined>>

/** Rejects every key except `key`. */
export const authenticate = (key: string, headers: Headers): Result.Result<void, ApiError> => {
  const given = headers["authorization"]
  const [, token] = /^bearer +(.*)$/i.exec(given ?? "") ?? []
  if (token === key) return Result.void
  return Result.fail(apiError(
    "PLATFORM.AUTHENTICATION_INVALID",
    given === undefined ? "Send the API key as `Authorization: Bearer <key>`." : "The API key is not valid."
  ))
}

/** The requested integration, null if the endpoint belongs to the account; or the error that rejects the request. */
export const authorize = (
  world: World,
  account: Account,
  endpoint: Endpoint,
  headers: Headers
): Result.Result<string | null, ApiError> => {
  if (endpoint.category === null) return Result.succeed(null)
  const id = headers["x-integration-id"]
  if (id === undefined || id === "") return Result.fail(invalidInput("Send the header X-Integration-Id."))
  const integration = world.integrations.find((integration) => integration.id === id)
  if (integration === undefined) {
    return Result.fail(apiError("PLATFORM.INTEGRATION_NOT_FOUND", `There is no integration "${id}".`))
  }
  if (!integration.categories.includes(endpoint.category) || !account.hasEndpointFor(id, endpoint)) {
    const what = endpoint.kind === "write" ? "ACTION" : "MODEL"
    const message = `"${id}" does not offer ${endpoint.method} ${endpoint.path.slice("/v1".length)}.`
    return Result.fail(apiError(`INTEGRATION.${what}_NOT_AVAILABLE`, message))
  }
  if (account.isMissingPermission(endpoint)) {
    const message = `The permission "${endpoint.permission}" is not enabled in the scope configuration.`
    return Result.fail(apiError("INTEGRATION.PERMISSION_MISSING", message))
  }
  return Result.succeed(id)
}
