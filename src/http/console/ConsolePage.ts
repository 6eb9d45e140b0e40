/**
 * The console: a page that shows and operates the installation in the browser. Every path of the console is the same page, which loads
 * one script and one style sheet of this server.
 *
 * Gotchas
 * - The style sheet and the script of the page are files, so the policy can forbid inline styles and scripts.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import { version } from "../contract/Version.ts"
import { CurrentCaller } from "../request/Caller.ts"
import { assetNames, consolePaths } from "../request/ConsolePaths.ts"
import * as RouteNotFound from "../request/RouteNotFound.ts"
import { loadAssets } from "./ConsoleAssets.ts"

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'"
].join("; ")

/** `status`: 404 for a path that is not one of the console's. */
const page = Effect.fnUntraced(function*(status: 200 | 404) {
  const caller = yield* CurrentCaller
  const right = caller?.scope ?? "read"
  const session = caller?.authenticatedBy === "session"
  return HttpServerResponse.text(
    `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Rollcall</title>
<link rel="icon" href="/console/icon.svg">
<link rel="stylesheet" href="/console/console.css">
<script type="module" src="/console/console.js"></script>
<body data-right="${right}" data-session="${session}" data-version="${version}">
<div id="console"><p>Loading…</p></div>
<noscript><p>The console needs JavaScript. Without it, use the <code>rollcall</code> command or <a href="/docs">the API</a>.</p></noscript>
`,
    { status, contentType: "text/html; charset=utf-8", headers: { "content-security-policy": policy } }
  )
})

const asset = (name: (typeof assetNames)[number]) =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest
    const found = (yield* loadAssets).get(name)
    if (found === undefined) return HttpServerResponse.empty({ status: 404 })
    const zips = request.headers["accept-encoding"]?.includes("gzip") === true
    return HttpServerResponse.uint8Array(zips ? found.zipped : found.plain, {
      contentType: found.type,
      headers: { vary: "accept-encoding", ...zips ? { "content-encoding": "gzip" } : {} }
    })
  })

/** A path that no other route has. */
const unknown = Effect.gen(function*() {
  const request = yield* HttpServerRequest
  return yield* RouteNotFound.wantsPage(request) && !RouteNotFound.isKnown(request) ? page(404) : RouteNotFound.respond
})

export const layer = Layer.mergeAll(
  HttpRouter.add("GET", "*", unknown),
  HttpRouter.add("GET", consolePaths[0], page(200)),
  ...consolePaths.slice(1).map((path) => HttpRouter.add("GET", path, page(200))),
  ...assetNames.map((name) => HttpRouter.add("GET", `/console/${name}`, asset(name)))
)
