/**
 * A process that serves one long list of applications and can change them. Pages are ready before the first request, so that a
 * benchmark measures the reader and not the server. Arguments: number of records, their form. Prints its base address.
 *
 * Details
 * - `GET /v1/ats/applications` with `cursor`, `page_size` (1 to 250) and `updated_after` (inclusive), for any integration; every other
 *   list is empty. A request needs a bearer key and an integration. Nothing is deleted, so no contender asks for records by id.
 * - `POST /control/change?count=` changes records and returns how many; `POST /control/reset` restores the first content,
 *   `GET /control/counts` returns the records and the time of the first request since `POST /control/counts`.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { Applications, type Form } from "./Applications.ts"
import { Pages } from "./Pages.ts"

const [records = "50000", form = "full"] = process.argv.slice(2)
const make = () => new Pages(new Applications(Number(records), form as Form))
let pages = make()

const noCounts = () => ({ records: 0, firstAt: 0 })
let counts = noCounts()

const send = (response: ServerResponse, status: number, body: Buffer) =>
  void response.writeHead(status, { "content-type": "application/json; charset=utf-8", "content-length": body.length })
    .end(body)
const sendJson = (response: ServerResponse, status: number, value: unknown) =>
  send(response, status, Buffer.from(JSON.stringify(value)))
const refuse = (response: ServerResponse, status: number, code: string, message: string) =>
  sendJson(response, status, { status: "error", error: { code, title: null, message, log_url: null } })

const empty = Buffer.from(`{"status":"success","data":{"next":null,"results":[]},"warnings":[]}`)

const list = (request: IncomingMessage, response: ServerResponse, path: string, query: URLSearchParams) => {
  counts.firstAt ||= Date.now()
  if (!/^Bearer ./.test(request.headers.authorization ?? "")) {
    return refuse(response, 401, "PLATFORM.AUTHENTICATION_INVALID", "the bearer key is missing")
  }
  if (request.headers["x-integration-id"] === undefined) {
    return refuse(response, 400, "PLATFORM.INPUT_INVALID", "X-Integration-Id is missing")
  }
  if (path !== "/v1/ats/applications") return send(response, 200, empty)
  const page = pages.read(query)
  if (page === null) {
    return refuse(response, 400, "PLATFORM.INPUT_INVALID", "a parameter is malformed or not served")
  }
  counts.records += page.count
  send(response, 200, page.body)
}

const control = (response: ServerResponse, command: string, query: URLSearchParams) => {
  switch (command) {
    case "GET counts":
      return sendJson(response, 200, counts)
    case "POST counts":
      counts = noCounts()
      return sendJson(response, 200, {})
    case "POST reset":
      pages = make()
      counts = noCounts()
      return sendJson(response, 200, {})
    case "POST change":
      return sendJson(response, 200, { changed: pages.change(Number(query.get("count"))) })
    default:
      return refuse(response, 404, "PLATFORM.INPUT_INVALID", "no such command")
  }
}

const server = createServer({ keepAliveTimeout: 60_000, noDelay: true }, (request, response) => {
  const [path = "", text = ""] = (request.url ?? "").split("?")
  const query = new URLSearchParams(text)
  if (path.startsWith("/control/")) {
    return control(response, `${request.method} ${path.slice("/control/".length)}`, query)
  }
  list(request, response, path, query)
})
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1\n`)
})
