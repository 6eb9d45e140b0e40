/** The calls of the public TypeScript client of this family of APIs, read from its modules: one per call. */
import * as models from "@kombo-api/sdk/models"
import * as operations from "@kombo-api/sdk/models/operations"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { endpoints } from "../../../src/sandbox/server/Endpoints.ts"

export interface ClientCall {
  /** `ats.getApplications` */
  readonly name: string
  /** `GET /ats/applications` */
  readonly request: string
  /** The schema (zod) of its arguments; its `body` is what the client sends. */
  readonly argumentsSchema: unknown
  /** The schema (zod) of the response, of which the client rejects any violation. */
  readonly responseSchema: unknown
}

/** `GET /ats/applications/{}/attachments`: the names of path parameters do not matter. */
export const signatureOf = (method: string, path: string): string =>
  `${method} ${path.replaceAll(/:\w+|\{\w+\}/g, "{}")}`

const schemas: Readonly<Record<string, unknown>> = { ...models, ...operations }

const nameOf = (file: string): string => {
  const [, namespace = "", call = ""] = /^([a-z]+)([A-Z]\w*)\.js$/.exec(file) ?? []
  return `${namespace}.${call.slice(0, 1).toLowerCase()}${call.slice(1)}`
}

const folder = new URL("funcs/", import.meta.resolve("@kombo-api/sdk"))

/** Every call; modules that send no request are left out. */
export const clientCalls: ReadonlyArray<ClientCall> = readdirSync(fileURLToPath(folder))
  .filter((file) => file.endsWith(".js"))
  .flatMap((file) => {
    const text = readFileSync(new URL(file, folder), "utf8")
    const found = (pattern: RegExp): string => pattern.exec(text)?.[1] ?? ""
    const path = found(/\bpathToFunc\("([^"]+)"/)
    return path === "" ? [] : [{
      name: nameOf(file),
      request: signatureOf(found(/\bmethod: "([A-Z]+)"/), path),
      argumentsSchema: schemas[found(/\b(\w+Request(?:Body)?\$outboundSchema)/)],
      responseSchema: schemas[found(/\bM\.json\(\s*200,\s*\w+\s*\.(\w+\$inboundSchema)/)]
    }]
  })

/** The names of our endpoints, by signature. */
export const endpointNames = new Map(
  endpoints.map(({ method, name, path }) => [signatureOf(method, path.slice("/v1".length)), name])
)
