/**
 * The commands against a process in whose responses every text tries to control the terminal. The responses have the properties of the API's
 * contract, so a new property is among them.
 */
import * as OpenApi from "effect/http-api/OpenApi"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { Api } from "../../../src/http/contract/Api.ts"
import { runCommand } from "./Program.ts"

/** Sets the title, clears the screen (also with C1), reverses text, hides text, forges a line. */
const hostile = "x\u001b]0;owned\u0007\u001b[2J\u009b31m\u007f\u202eabc\u200b\u2066\u2028\nforged"

interface JsonSchema {
  readonly $ref?: string
  readonly type?: string
  readonly enum?: ReadonlyArray<unknown>
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly oneOf?: ReadonlyArray<JsonSchema>
  readonly allOf?: ReadonlyArray<JsonSchema>
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly additionalProperties?: JsonSchema | boolean
}
interface Operation {
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>> }>
  >
}
const { components, paths }: {
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
} = JSON.parse(JSON.stringify(OpenApi.fromApi(Api)))

/** Values by the name of a property, where others would change what a command does, or could not be shown. */
const values: Readonly<Record<string, unknown>> = {
  next: null,
  model: "ats.application",
  models: ["ats.application"],
  // after the last sweep
  accepted_at: "2026-03-02T12:00:00.000Z",
  ranges: [],
  ...Object.fromEntries(["configured", "on", "dry_run"].map((name) => [name, true])),
  before: { candidate: { first_name: hostile } },
  // short enough for its column
  after: { candidate: { first_name: "a\nforged" } },
  transitions: [{ name: "stage_changed", from: hostile, to: hostile }]
}
const isTime = /(^|_)(at|since|until|to|watermark)$/

/** A value with all properties of the schema; every text is hostile. */
const valueOf = (schema: JsonSchema, name = ""): unknown => {
  const { $ref, additionalProperties, allOf = [], enum: choices, items, properties = {}, type } = schema
  const anyOf = schema.anyOf ?? schema.oneOf
  if (name in values && items?.type !== "string") return values[name]
  if ($ref !== undefined) return valueOf(components.schemas[$ref.split("/").at(-1)!]!, name)
  if (anyOf !== undefined) return valueOf(anyOf.find((one) => one.type !== "null")!, name)
  if (choices !== undefined) return choices[0]
  if (type === "array") return [valueOf(items!)]
  if (type === "boolean") return false
  if (type === "number" || type === "integer") return 1
  if (type === "string") return isTime.test(name) ? "2026-03-01T12:00:00.000Z" : hostile
  return Object.fromEntries([
    ...Object.entries(properties).map(([key, one]) => [key, valueOf(one, key)]),
    ...(typeof additionalProperties === "object" ? [[hostile, valueOf(additionalProperties)]] : []),
    ...allOf.flatMap((one) => Object.entries(Object(valueOf(one))))
  ])
}

/** The response to a request; undefined if there is no such path. */
const bodyOf = (method: string, path: string): unknown => {
  const matching = Object.entries(paths).findLast(([template]) =>
    new RegExp(`^${template.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(path)
  )
  const found = paths[path] ?? matching?.[1]
  const schema = found?.[method.toLowerCase()]?.responses["200"]?.content?.["application/json"]?.schema
  return schema && valueOf(schema)
}

const problem = { detail: hostile, hint: hostile, faults: [{ where: hostile, message: hostile, hint: hostile }] }
const server = createServer(({ headers, method = "", url = "" }, response) => {
  const path = url.replace(/\?.*/, "")
  if (headers.accept === "text/event-stream") {
    response.writeHead(200, { "content-type": "text/event-stream" })
    const { events: [event] } = Object(valueOf({ $ref: "EventPage" }))
    response.end(`id: p\ndata: ${JSON.stringify(event)}\n\n`)
    return
  }
  const body = path === "/v1/deadletters/7" ? undefined : bodyOf(method, path)
  response.writeHead(body === undefined ? 409 : 200, { "content-type": "application/json" })
  response.end(JSON.stringify(body ?? problem))
})
let environment: Readonly<Record<string, string>> = {}
beforeAll(async () => {
  await once(server.listen(0, "127.0.0.1"), "listening")
  environment = { ROLLCALL_HTTP_PORT: String((server.address() as AddressInfo).port) }
})
afterAll(() => void server.close().closeAllConnections())

const commands: ReadonlyArray<string> = [
  "fleet",
  "tail",
  "status",
  "streams list",
  "streams show a/ats.tag",
  "streams audit a/ats.tag",
  "holds list",
  "holds show 1",
  "plugins list",
  "plugins show p",
  "plugins replay p h --dry-run",
  "deadletters list",
  "deadletters causes",
  "deadletters show 1",
  "integrations list",
  "sessions list",
  "forget --list"
]

/** Control and format characters, except line feeds. */
const dangerous = /[^\P{Cc}\n]|\p{Cf}|\p{Zl}/u

const assertEscaped = (shown: string) => {
  assert.notMatch(shown, dangerous)
  assert.include(shown, String.raw`\u001b]0;`)
  assert.notMatch(shown, /^forged/m)
}

describe("names that try to control the terminal", () => {
  it.each(commands)("are escaped by `%s`, which stays on its lines, and with --json", async (name) => {
    const { stderr, stdout } = await runCommand(name.split(" "), environment)
    assertEscaped(stdout)
    assert.notMatch(stderr, dangerous)
    const json = await runCommand([...name.split(" "), "--json"], environment)
    assert.notMatch(json.stdout + json.stderr, dangerous)
    assert.include(JSON.stringify(JSON.parse(json.stdout)), JSON.stringify(hostile).slice(1, -1))
  })

  it("are escaped by `forget`, whose plan stays on its lines", async () => {
    const { code, stdout } = await runCommand(["forget", "a/ats.candidate/c", "--yes"], environment)
    assert.strictEqual(code, 0)
    assertEscaped(stdout)
  })

  it.each([
    ["in the reason why `--wait` ends", ["streams", "sweep", "a/ats.tag", "--wait"]],
    ["in errors of the running process", ["deadletters", "show", "7"]]
  ])("are escaped %s, which stay on their lines", async (_, args) => {
    const { code, stderr } = await runCommand(args, environment)
    assert.strictEqual(code, 1)
    assertEscaped(stderr)
  })

  it("are escaped in an error that quotes the name of a file", async () => {
    const { code, stderr } = await runCommand(["plugins", "dev", `./${hostile}`])
    assert.strictEqual(code, 1)
    assert.notMatch(stderr, dangerous)
    assert.include(stderr, String.raw`\u001b]0;`)
  })

  it.each(["start", "doctor", "status"])(
    "are escaped in errors of the configuration that `%s` reports",
    async (name) => {
      const { stderr, stdout } = await runCommand([name], {
        ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
        ROLLCALL_API_KEY: "k",
        ROLLCALL_INTEGRATIONS: `green${hostile}house`,
        ROLLCALL_HTTP_PORT: `1${hostile}`,
        ROLLCALL_LOG_FORMAT: "pretty"
      })
      assert.isNotEmpty(stdout + stderr)
      assert.notMatch(stdout + stderr, dangerous)
    }
  )
})
