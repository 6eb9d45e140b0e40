/**
 * The documentation page at `/docs`. It loads nothing from other servers: its policy allows only what the page contains.
 *
 * Gotchas
 * - The page has 3 MB, so it is built on the first request for it. Its temporary router is discarded; the page is cached.
 * - The page is kept as bytes. Node.js would encode a text again for each response, and keep the bytes until the client has received them.
 * - The library behind it writes style sheets while it runs, so the policy cannot name them by their hashes.
 */
import * as Effect from "effect/Effect"
import * as HttpApiScalar from "effect/http-api/HttpApiScalar"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { documentedApi } from "../contract/Api.ts"
import { hashOf } from "./Page.ts"

const policyFor = (html: string): string => {
  const scripts = [...html.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, script = ""]) => hashOf(script))
  return [
    "default-src 'none'",
    `script-src ${scripts.join(" ")}`,
    "style-src 'unsafe-inline'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'"
  ].join("; ")
}

const withPolicy = (page: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse =>
  page.body._tag === "Uint8Array"
    ? HttpServerResponse.uint8Array(page.body.body, {
      contentType: "text/html; charset=utf-8",
      headers: { "content-security-policy": policyFor(new TextDecoder().decode(page.body.body)) }
    })
    : page

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  // without fonts, tools and reports of other servers; Effect's type lacks some of these options, but passes them on
  const scalar = {
    withDefaultFonts: false,
    showDeveloperTools: "never",
    hideClientButton: true,
    telemetry: false
  } as const
  const build = HttpRouter.toHttpEffect(
    HttpApiScalar.layer(documentedApi(yield* CurrentModels), { path: "/docs", scalar })
  )
  const page = yield* Effect.cached(Effect.flatMap(build, (page) => Effect.map(page, withPolicy)))
  yield* router.add("GET", "/docs", page)
}))
