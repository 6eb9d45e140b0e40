/**
 * The 27 endpoints in one table: hides that the contract describes lists, other reads and writes apart.
 *
 * Source: docs/contract.md, "List endpoints", "Other reads", "Writes".
 */
import { incrementalModels, lists } from "../../api/Lists.ts"
import { type EndpointName, type Permission, permissions } from "../../api/Permissions.ts"
import { readNames, reads } from "../../api/Reads.ts"
import type { ToolCategory } from "../../api/Tools.ts"
import { writeNames, writes } from "../../api/Writes.ts"

export type { EndpointName, Permission } from "../../api/Permissions.ts"

export interface Endpoint {
  readonly name: EndpointName
  readonly kind: "list" | "read" | "write"
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
  /** As a router writes it: `/v1/ats/candidates/:candidate_id/tags`. */
  readonly path: `/${string}`
  /** null: of the account, asked without an integration. */
  readonly category: ToolCategory | null
  readonly permission: Permission | null
  /** Passed on to the connected system while the caller waits; such requests share a limit of concurrency. */
  readonly live: boolean
}

const endpoint = (
  name: EndpointName,
  of: Pick<Endpoint, "kind" | "method" | "category" | "live"> & { readonly path: string }
): Endpoint => ({ ...of, name, path: `/v1${of.path.replaceAll(/\{(\w+)\}/g, ":$1")}`, permission: permissions[name] })

export const endpoints: ReadonlyArray<Endpoint> = [
  ...incrementalModels.map((model) =>
    endpoint(model, {
      kind: "list",
      method: "GET",
      path: lists[model].path,
      category: model.startsWith("ats.") ? "ats" : "hris",
      live: false
    })
  ),
  ...readNames.map((name) => endpoint(name, { ...reads[name], kind: "read", method: "GET" })),
  ...writeNames.map((name) => endpoint(name, { ...writes[name], kind: "write", live: true }))
]

const byName = new Map(endpoints.map((endpoint) => [endpoint.name, endpoint]))
export const endpointOf = (name: EndpointName): Endpoint => byName.get(name) as Endpoint

export const endpointNames = endpoints.map(({ name }) => name)
export const permissionNames = [
  ...new Set(Object.values(permissions).filter((permission): permission is Permission => permission !== null))
]

/** Methods that exist at a path; empty if there is no such path. */
export const allowedMethods = (path: string): ReadonlyArray<string> =>
  endpoints
    .filter((endpoint) => new RegExp(`^${endpoint.path.replaceAll(/:\w+/g, "[^/]+")}$`).test(path))
    .map(({ method }) => method)

/** The tool an integration is of: `greenhouse` of `greenhouse:acme`. */
export const toolOf = (integration: string): string => integration.split(":", 1)[0] ?? integration
