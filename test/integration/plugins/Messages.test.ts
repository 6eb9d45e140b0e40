/** Messages of webhook and digest to a real HTTP receiver, for events of the sandbox. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"
import { Webhook } from "standardwebhooks"
import digest from "../../../plugins/digest/plugin.ts"
import { webhook } from "../../../plugins/webhook/plugin.ts"
import * as Acme from "./Acme.ts"

interface Received {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** A receiver that answers with these statuses in order, then with 200. */
const receiver = (...statuses: ReadonlyArray<number>) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const received: Array<Received> = []
      const server = createServer((request, response) => {
        void text(request).then((body) => {
          const status = statuses[received.length] ?? 200
          received.push({ body, headers: request.headers as Record<string, string> })
          response.writeHead(status, status === 429 ? { "retry-after": "30" } : {}).end()
        })
      })
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      return { server, received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
    }),
    ({ server }) =>
      Effect.sync(() => {
        server.close()
        server.closeAllConnections()
      })
  )

const key = `whsec_${btoa("k".repeat(24))}`
const model = "ats.application"
const integration = Acme.ats

const hire = Effect.fnUntraced(function*(acme: Acme.Acme) {
  const { id } = yield* acme.sandbox.mutate({ op: "create", integration, model })
  yield* acme.read
  yield* acme.sandbox.mutate({ op: "update", integration, model, id, fields: { outcome: "HIRED" } })
  yield* acme.read
  return id
})

describe("webhook, over HTTP", () => {
  it.live("messages are verified by the receiver and arrive in order per record, even after a rate limit", () =>
    Effect.scoped(Effect.gen(function*() {
      const acme = yield* Acme.make
      const { received, url } = yield* receiver(429)
      const hook = webhook({
        url,
        secret: { secret: "HOOK" },
        triggers: ["ats.application.created", "ats.application.updated", "ats.application.deleted"]
      }).with({ values: { HOOK: key } })
      yield* acme.read
      yield* acme.deliver([hook])
      const id = yield* hire(acme)
      yield* acme.sandbox.mutate({ op: "delete", integration, model, id })
      yield* acme.read
      yield* acme.deliver([hook])
      assert.strictEqual(received.length, 1)
      yield* acme.deliver([hook], Acme.never(), "1 minute")
      const read = new Webhook(key)
      const events = received.map(({ body, headers }) => read.verify(body, headers) as Record<string, unknown>)
      assert.deepStrictEqual(events.map(({ subject, type }) => [type, subject]), [
        ["rollcall.ats.application.created", id],
        ["rollcall.ats.application.created", id],
        ["rollcall.ats.application.updated", id],
        ["rollcall.ats.application.deleted", id]
      ])
      assert.strictEqual(received[0]?.headers["webhook-id"], received[1]?.headers["webhook-id"])
    })))
})

describe("digest, over HTTP", () => {
  it.live("one message covers all days on which the process did not run (L8)", () =>
    Effect.scoped(Effect.gen(function*() {
      const acme = yield* Acme.make
      const { received, url } = yield* receiver()
      const used = digest.with({ values: { DIGEST_URL: url } })
      yield* acme.read
      yield* acme.deliver([used])
      yield* hire(acme)
      yield* hire(acme)
      for (const later of ["3 days", "4 days"] as const) yield* acme.deliver([used], Acme.never(), later)
      assert.strictEqual(received.length, 1)
      const { text } = JSON.parse(received[0]?.body ?? "{}")
      assert.match(text, new RegExp(`^\\*${integration}, [0-9 to-]+\\*\n• 2 hired: `))
    })))
})
