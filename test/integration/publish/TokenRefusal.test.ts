/** A broker that refuses a token and then goes down. It speaks only the requests of a login. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { type AddressInfo, createServer } from "node:net"
import * as KafkaClient from "../../../src/publish/kafka/KafkaClient.ts"

const int16 = (value: number) => Buffer.from([value >> 8, value & 255])
const int32 = (value: number) => Buffer.concat([int16(value >>> 16), int16(value & 0xffff)])
const withLength = (text: string, length: (value: number) => Buffer) =>
  Buffer.concat([length(Buffer.byteLength(text)), Buffer.from(text)])
const ok = int16(0)
const none = int16(0xffff)
const apiVersions = 18
const handshake = 17
const authenticate = 36

/** Bodies of responses by API key. The token is refused with a challenge (RFC 7628, section 3.2.3). */
const responses: Readonly<Record<number, Buffer>> = {
  [apiVersions]: Buffer.concat([
    ok,
    int32(3),
    ...[apiVersions, handshake, authenticate].flatMap((key) => [int16(key), int16(0), int16(1)]),
    int32(0)
  ]),
  [handshake]: Buffer.concat([ok, int32(1), withLength("OAUTHBEARER", int16)]),
  [authenticate]: Buffer.concat([ok, none, withLength(`{"status":"invalid_token"}`, int32), int32(0), int32(0)])
}

const refusingBroker = Effect.acquireRelease(
  Effect.promise(async () => {
    const server = createServer((socket) => {
      let received = Buffer.alloc(0)
      socket.on("error", () => {})
      socket.on("data", (bytes) => {
        received = Buffer.concat([received, bytes])
        while (received.length >= 4 && received.length >= 4 + received.readInt32BE(0)) {
          const body = responses[received.readInt16BE(4)] ?? Buffer.alloc(0)
          socket.write(Buffer.concat([int32(4 + body.length), received.subarray(8, 12), body]))
          received = received.subarray(4 + received.readInt32BE(0))
        }
      })
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    return { server, address: `127.0.0.1:${(server.address() as AddressInfo).port}` }
  }),
  ({ server }) => Effect.sync(() => server.close())
)

describe("a broker that refused a token and is then down", () => {
  it.live("is reported as unreachable, so that publishing continues soon after it is up", () =>
    Effect.gen(function*() {
      const { address, server } = yield* refusingBroker
      const client = yield* KafkaClient.make({
        brokers: [address],
        ssl: false,
        sasl: { mechanism: "oauthbearer", token: Effect.succeed(Redacted.make("a-token")), endpoint: null }
      })
      const reason = Effect.map(
        Effect.flip(client.admin("listing topics", (admin) => admin.listTopics())),
        (error) => error.reason._tag
      )
      assert.strictEqual(yield* reason, "Refused")
      server.close()
      assert.strictEqual(yield* reason, "Unreachable")
    }))
})
