/** An OAuth 2.0 token endpoint on loopback (RFC 6749, section 4.4), and the file with the public key of its tokens. */
import * as Effect from "effect/Effect"
import { generateKeyPairSync, sign } from "node:crypto"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"

export const client = { clientId: "rollcall:eu", clientSecret: "cl1ent s3cret" }

export interface TokenIssuer {
  readonly url: string
  /** The public key as a JSON Web Key Set. */
  jwks: string
  /** A signed token for the broker's user `writer`. */
  readonly token: (lifetimeSeconds: number) => string
  /** The lifetime of the tokens that the endpoint issues. */
  lifetimeSeconds: number
  /** How many tokens the endpoint has issued. */
  issued: number
  /** Signs tokens with a new key from now on. */
  readonly rotate: () => void
}

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")

/** Answers only a form-encoded request with the client's login as RFC 6749 writes it. */
export const tokenIssuer = Effect.acquireRelease(
  Effect.promise(async () => {
    const newKey = () => generateKeyPairSync("rsa", { modulusLength: 2048 })
    const keySet = ({ publicKey }: typeof key) =>
      JSON.stringify({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "test", alg: "RS256", use: "sig" }] })
    let key = newKey()
    const token = (lifetimeSeconds: number) => {
      const now = Math.floor(Date.now() / 1000)
      const claims = { iss: "test", aud: "kafka", sub: "writer", scope: "kafka", iat: now, exp: now + lifetimeSeconds }
      const text = `${encode({ alg: "RS256", kid: "test", typ: "JWT" })}.${encode(claims)}`
      return `${text}.${sign("sha256", Buffer.from(text), key.privateKey).toString("base64url")}`
    }
    const login = `Basic ${
      Buffer.from(`${encodeURIComponent(client.clientId)}:${encodeURIComponent(client.clientSecret)}`).toString(
        "base64"
      )
    }`
    const server = createServer(async (request, response) => {
      let body = ""
      for await (const chunk of request) body += chunk
      const form = new URLSearchParams(body)
      const [status, answer] = form.get("grant_type") !== "client_credentials"
        ? [400, { error: "unsupported_grant_type" }]
        : request.headers.authorization !== login
        ? [401, { error: "invalid_client" }]
        : form.get("scope") !== "kafka"
        ? [400, { error: "invalid_scope" }]
        : [200, {
          access_token: token(issuer.lifetimeSeconds),
          token_type: "Bearer",
          expires_in: issuer.lifetimeSeconds
        }]
      if (status === 200) issuer.issued += 1
      response.writeHead(Number(status), { "content-type": "application/json" }).end(JSON.stringify(answer))
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const issuer: TokenIssuer & { readonly server: typeof server } = {
      server,
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`,
      jwks: keySet(key),
      token,
      lifetimeSeconds: 300,
      issued: 0,
      rotate: () => {
        key = newKey()
        issuer.jwks = keySet(key)
      }
    }
    return issuer
  }),
  ({ server }) => Effect.sync(() => server.close().closeAllConnections())
)
