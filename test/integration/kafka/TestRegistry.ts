/**
 * A schema registry for tests, with the parts of Confluent's API that are used: it follows the documented requests, responses and
 * error codes, but decides about compatibility as the test says. It accepts one login.
 */
import * as Effect from "effect/Effect"
import { createServer, type Server } from "node:http"
import { freePort } from "../../support/services/FreePort.ts"

export const login = { username: "rollcall", password: "registry-s3cret" }

export interface TestRegistry {
  readonly url: string
  /** Id → the schema and the subjects that have it. */
  readonly schemas: Map<number, { readonly schema: string; readonly subjects: Set<string> }>
  /** Whether a schema that differs from the subject's latest one is compatible. */
  compatible: boolean
  /** Closes the port; the schemas stay. */
  readonly stop: Effect.Effect<void>
  readonly start: Effect.Effect<void>
}

const mediaType = "application/vnd.schemaregistry.v1+json"

export const testRegistry = Effect.acquireRelease(
  Effect.promise(async () => {
    const schemas: TestRegistry["schemas"] = new Map()
    const latest = (subject: string) => [...schemas].findLast(([, { subjects }]) => subjects.has(subject))
    const authorization = `Basic ${Buffer.from(`${login.username}:${login.password}`).toString("base64")}`

    const answer = (method: string, path: string, body: string): readonly [status: number, body: unknown] => {
      if (method === "GET" && path === "/subjects") {
        return [200, [...new Set([...schemas.values()].flatMap(({ subjects }) => [...subjects]))]]
      }
      const { schema, schemaType }: { schema?: string; schemaType?: string } = JSON.parse(body)
      if (schemaType !== "JSON" || schema === undefined) return [422, { error_code: 42201, message: "Invalid schema" }]
      const checked = /^\/compatibility\/subjects\/([^/]+)\/versions\/latest$/.exec(path)
      if (checked !== null) {
        const held = latest(decodeURIComponent(checked[1] ?? ""))
        if (held === undefined) return [404, { error_code: 40401, message: "Subject not found" }]
        return [200, { is_compatible: registry.compatible || held[1].schema === schema }]
      }
      const registered = /^\/subjects\/([^/]+)\/versions$/.exec(path)
      if (registered === null) return [404, { error_code: 404, message: "HTTP 404 Not Found" }]
      const subject = decodeURIComponent(registered[1] ?? "")
      const same = [...schemas].find(([, held]) => held.schema === schema)
      if (same !== undefined) {
        same[1].subjects.add(subject)
        return [200, { id: same[0] }]
      }
      if (!registry.compatible && latest(subject) !== undefined) {
        return [409, { error_code: 409, message: "Schema being registered is incompatible" }]
      }
      schemas.set(schemas.size + 1, { schema, subjects: new Set([subject]) })
      return [200, { id: schemas.size }]
    }

    const listen = (port: number) =>
      new Promise<Server>((resolve) => {
        const server = createServer(async (request, response) => {
          let body = ""
          for await (const chunk of request) body += chunk
          const [status, content] = request.headers.authorization === authorization
            ? answer(request.method ?? "", request.url ?? "", body)
            : [401, { error_code: 401, message: "Unauthorized" }]
          response.writeHead(status, { "content-type": mediaType }).end(JSON.stringify(content))
        })
        server.listen(port, "127.0.0.1", () => resolve(server))
      })
    const close = () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      })
    // a port that no outgoing connection gets while the registry is stopped
    const port = await freePort()
    let server = await listen(port)
    const registry: TestRegistry = {
      url: `http://127.0.0.1:${port}`,
      schemas,
      compatible: true,
      stop: Effect.promise(close),
      start: Effect.promise(async () => {
        server = await listen(port)
      })
    }
    return registry
  }),
  ({ stop }) => stop
)
