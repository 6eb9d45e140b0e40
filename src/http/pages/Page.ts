/** The frame of the HTML pages. They have no scripts, and one style sheet that the policy names by its hash. */
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { createHash } from "node:crypto"

const style = `
  :root { color-scheme: light dark; background: light-dark(#f7f8fa, #14171c) }
  body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
  button, input { font: inherit; padding: .4rem .8rem; border: 1px solid #8888; border-radius: .4rem }
  button { cursor: pointer }
  .login { max-width: 24rem; margin: 12vh auto }
  .login label { display: block; font-weight: 600 }
  .login input { box-sizing: border-box; width: 100%; margin: .4rem 0 1rem }
  .login button { background: #2457d6; border-color: #2457d6; color: #fff; width: 100% }
  .login p { color: light-dark(#444, #bbb) }
  .login [role=alert] { color: light-dark(#a4161a, #ff8a8a); font-weight: 600 }
`

export const hashOf = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`

const policy = `default-src 'none'; style-src ${
  hashOf(style)
}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'`

export const escape = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

/** `body` is HTML. */
export const render = (title: string, body: string, status: number) =>
  HttpServerResponse.html(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escape(title)}</title>
<style>${style}</style>
${body}`).pipe(
    HttpServerResponse.setStatus(status),
    HttpServerResponse.setHeader("content-type", "text/html; charset=utf-8"),
    HttpServerResponse.setHeader("content-security-policy", policy)
  )
