/** The frame of the HTML pages. They have no scripts, and one style sheet that the policy names by its hash. */
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { createHash } from "node:crypto"

const style = `
  :root { color-scheme: light dark }
  body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
  table { border-collapse: collapse; width: 100% }
  th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884 }
  .n { text-align: right; font-variant-numeric: tabular-nums }
  header { display: flex; align-items: baseline; justify-content: space-between }
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

export const policy = `default-src 'none'; style-src ${
  hashOf(style)
}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'`

export const escape = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

export interface Options {
  readonly status?: number
  /** Elements for the head of the document. */
  readonly head?: string
}

/** `body` is HTML. */
export const render = (title: string, body: string, { head = "", status = 200 }: Options = {}) =>
  HttpServerResponse.html(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
${head}<meta name="viewport" content="width=device-width">
<title>${escape(title)}</title>
<style>${style}</style>
${body}`).pipe(
    HttpServerResponse.setStatus(status),
    HttpServerResponse.setHeader("content-type", "text/html; charset=utf-8"),
    HttpServerResponse.setHeader("content-security-policy", policy)
  )
