/**
 * The permission that each of the 27 endpoints needs in the account's scope configuration.
 *
 * Source: docs/contract.md, "Authentication". `null` if the specification does not mention a permission.
 */
import { type IncrementalModel, incrementalModels } from "./Lists.ts"
import { type ReadName, reads } from "./Reads.ts"
import { type WriteName, writes } from "./Writes.ts"

export type EndpointName = IncrementalModel | ReadName | WriteName
export type Permission = NonNullable<
  (typeof reads)[ReadName]["permission"] | (typeof writes)[WriteName]["permission"]
>

const withoutPermission = incrementalModels.map((model) => [model, null] as const)
const declared = Object.entries({ ...reads, ...writes }).map(([name, { permission }]) => [name, permission] as const)

export const permissions = Object.fromEntries<Permission | null>([...withoutPermission, ...declared]) as Readonly<
  Record<EndpointName, Permission | null>
>
