/**
 * The 27 endpoints in one table: the lists, the other reads and the writes. And lists beyond the specification.
 *
 * Source: docs/contract.md, "List endpoints", "Other reads", "Writes".
 */
import { incrementalModels, lists } from "../../api/Lists.ts"
import { type EndpointName, type Permission, permissions } from "../../api/Permissions.ts"
import { readNames, reads } from "../../api/Reads.ts"
import type { ToolCategory } from "../../api/Tools.ts"
import { writeNames, writes } from "../../api/Writes.ts"

export interface Endpoint<Name extends string = string> {
  readonly name: Name
  readonly kind: "list" | "read" | "write"
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
  /** In router syntax: `/v1/ats/candidates/:candidate_id/tags`. */
  readonly path: `/${string}`
  /** Null if the endpoint belongs to the account and takes no integration. */
  readonly category: ToolCategory | null
  readonly permission: Permission | null
  /** The API forwards the request to the connected system while the caller waits; such requests share a concurrency limit. */
  readonly forwarded: boolean
}

const endpoint = (
  name: EndpointName,
  of: Pick<Endpoint, "kind" | "method" | "category" | "forwarded"> & { readonly path: string }
): Endpoint<EndpointName> => ({
  ...of,
  name,
  path: `/v1${of.path.replaceAll(/\{(\w+)\}/g, ":$1")}`,
  permission: permissions[name]
})

export const endpoints: ReadonlyArray<Endpoint<EndpointName>> = [
  ...incrementalModels.map((model) =>
    endpoint(model, {
      kind: "list",
      method: "GET",
      path: lists[model].path,
      category: model.startsWith("ats.") ? "ats" : "hris",
      forwarded: false
    })
  ),
  ...readNames.map((name) => endpoint(name, { ...reads[name], kind: "read", method: "GET" })),
  ...writeNames.map((name) => endpoint(name, { ...writes[name], kind: "write", forwarded: true }))
]

/**
 * Lists beyond the specification: records that it shows only inside other records, at the paths that other APIs of this kind have. They
 * have the filters that all lists have.
 */
export const furtherLists = {
  "ats.candidate": "/ats/candidates",
  "ats.job": "/ats/jobs",
  "hris.employee": "/hris/employees"
} as const
export type FurtherList = keyof typeof furtherLists

export const furtherEndpoints: ReadonlyArray<Endpoint<FurtherList>> = (
  Object.keys(furtherLists) as ReadonlyArray<FurtherList>
).map((name) => ({
  name,
  kind: "list",
  method: "GET",
  path: `/v1${furtherLists[name]}`,
  category: name.startsWith("ats.") ? "ats" : "hris",
  permission: null,
  forwarded: false
}))

const byName = new Map(endpoints.map((endpoint) => [endpoint.name, endpoint]))
export const endpointOf = (name: EndpointName) => byName.get(name) as Endpoint<EndpointName>

export const endpointNames = endpoints.map(({ name }) => name)
export const permissionNames = [
  ...new Set(Object.values(permissions).filter((permission): permission is Permission => permission !== null))
]

/** The methods that exist at a path; empty if the path does not exist. */
export const allowedMethods = (path: string): ReadonlyArray<string> =>
  [...endpoints, ...furtherEndpoints]
    .filter((endpoint) => new RegExp(`^${endpoint.path.replaceAll(/:\w+/g, "[^/]+")}$`).test(path))
    .map(({ method }) => method)
