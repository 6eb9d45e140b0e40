/** Encrypted connections to real servers: what is verified, and the message if it fails. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { SqlClient } from "effect/sql/SqlClient"
import { execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import * as Config from "../../../src/config/Config.ts"
import { secret } from "../../../src/config/ConfigFile.ts"
import type { StoreLocation } from "../../../src/config/StoreSettings.ts"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import * as PostgresInspection from "../../../src/store/postgres/PostgresInspection.ts"
import { run } from "../cli/Program.ts"
import { onServer } from "./Opened.ts"
import * as PgBouncer from "./PgBouncer.ts"
import * as Server from "./Server.ts"

class Servers extends Context.Service<Servers, {
  readonly url: string
  readonly trusted: { readonly certificate: string; readonly key: string }
  readonly client: { readonly certificate: string; readonly key: string }
  readonly stranger: { readonly certificate: string; readonly key: string }
  readonly other: { readonly certificate: string }
  readonly server: { readonly certificate: string; readonly key: string }
  readonly folder: string
}>()("test/postgres/Tls") {}

const servers = Layer.effect(
  Servers,
  Effect.gen(function*() {
    const { folder, other, trusted, url } = yield* Server.startTlsServer
    return {
      folder,
      other,
      trusted,
      url,
      client: yield* trusted.sign("certified"),
      server: yield* trusted.sign("bouncer", "DNS:localhost"),
      stranger: yield* other.sign("certified")
    }
  })
).pipe(Layer.orDie)

type Postgres = Extract<StoreLocation, { readonly _tag: "Postgres" }>

/** The store as the configuration gives it to the adapter. */
const locationOf = (url: string): Postgres => {
  const text = { initial: Redacted.make(url), current: Effect.succeed(Redacted.make(url)), file: null }
  const settings = Result.getOrThrow(Config.check({
    variables: { ROLLCALL_API_URL: "https://a/v1", ROLLCALL_API_KEY: secret("K"), DATABASE_URL: secret("U") },
    secrets: new Map([["K", text], ["U", text]]),
    file: null,
    faults: []
  }))
  return settings.store._tag === "Postgres" ? settings.store : assert.fail("not PostgreSQL")
}

const at = (url: string, change: { readonly host?: string; readonly user?: string }, parameters: object) => {
  const changed = new URL(url)
  if (change.host !== undefined) changed.hostname = change.host
  if (change.user !== undefined) Object.assign(changed, { username: change.user, password: "" })
  changed.search = new URLSearchParams({ ...parameters }).toString()
  return changed.href
}

/** Opens a client, and asks the server whether the connection is encrypted. */
const isEncrypted = (url: string) =>
  Effect.gen(function*() {
    const context = yield* Layer.build(Layer.fresh(Postgres.client(locationOf(url))))
    const sql = Context.get(context, SqlClient)
    const [row] = yield* sql<{ ssl: boolean }>`SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`
    return row?.ssl
  }).pipe(Effect.scoped)

/** Why opening and inspecting the store fail; both must fail in the same way. */
const refusal = (url: string) =>
  Effect.gen(function*() {
    const opened = yield* Effect.flip(Effect.scoped(Layer.build(Layer.fresh(Postgres.client(locationOf(url))))))
    const inspected = yield* Effect.flip(PostgresInspection.inspect(locationOf(url)))
    for (const { reason } of [opened, inspected]) assert.strictEqual(reason._tag, "Misconfigured")
    assert.strictEqual(inspected.message, opened.message)
    assert.notInclude(`${opened.message}${opened.reason.hint}`, new URL(url).password || "no password")
    return opened.reason.hint
  })

onServer("an encrypted database", () => {
  layer(servers, { excludeTestServices: true })((it) => {
    const local = { host: "localhost" }

    for (const sslmode of ["require", "verify-ca", "verify-full"]) {
      it.effect(`is used with sslmode=${sslmode} if the certificate is signed by the authority of sslrootcert`, () =>
        Effect.gen(function*() {
          const { trusted, url } = yield* Servers
          const sslrootcert = trusted.certificate
          assert.isTrue(yield* isEncrypted(at(url, local, { sslmode, sslrootcert })))
          const { exists } = yield* PostgresInspection.inspect(locationOf(at(url, local, { sslmode, sslrootcert })))
          assert.isFalse(exists)
        }))

      it.effect(`is refused with sslmode=${sslmode} if another authority signed the certificate`, () =>
        Effect.gen(function*() {
          const { other, url } = yield* Servers
          const hint = yield* refusal(at(url, local, { sslmode, sslrootcert: other.certificate }))
          assert.match(hint, /an encrypted connection.*signed by a certificate in the file of sslrootcert/)
        }))
    }

    for (const sslmode of ["require", "verify-full"]) {
      it.effect(`is refused with sslmode=${sslmode} and no sslrootcert if the authority is unknown`, () =>
        Effect.gen(function*() {
          assert.match(yield* refusal(at((yield* Servers).url, local, { sslmode })), /sslrootcert/)
          assert.match(
            yield* refusal(at((yield* Servers).url, local, { sslmode, sslrootcert: "system" })),
            /NODE_EXTRA/
          )
        }))

      it.effect(`is refused with sslmode=${sslmode} if the certificate names another host`, () =>
        Effect.gen(function*() {
          const { trusted, url } = yield* Servers
          const hint = yield* refusal(at(url, { host: "127.0.0.1" }, { sslmode, sslrootcert: trusted.certificate }))
          assert.match(hint, /names the host of the address/)
        }))
    }

    it.effect("is used with sslmode=verify-ca although the certificate names another host", () =>
      Effect.gen(function*() {
        const { trusted, url } = yield* Servers
        const sslrootcert = trusted.certificate
        assert.isTrue(yield* isEncrypted(at(url, { host: "127.0.0.1" }, { sslmode: "verify-ca", sslrootcert })))
      }))

    it.effect("is refused if the server does not support TLS", () =>
      Effect.gen(function*() {
        const plain = yield* Server.startServer
        const { trusted } = yield* Servers
        for (const sslmode of ["require", "verify-ca", "verify-full"]) {
          const hint = yield* refusal(at(plain, {}, { sslmode, sslrootcert: trusted.certificate }))
          assert.match(hint, /an encrypted connection .*check that the server supports TLS/)
        }
      }))

    it.effect("is sent nothing but the request for TLS if it, or someone in between, declines", () =>
      Effect.gen(function*() {
        const { trusted } = yield* Servers
        const received: Array<string> = []
        const port = yield* Effect.acquireRelease(
          Effect.promise(() => {
            const declining = createServer((socket) => {
              socket.on("error", () => {}).on("data", (data) => {
                received.push(data.toString("hex"))
                socket.write("N")
              })
            })
            return new Promise<{ readonly close: () => void; readonly port: number }>((resolve) =>
              declining.listen(0, "127.0.0.1", () => {
                const address = declining.address()
                const port = typeof address === "object" && address !== null ? address.port : 0
                resolve({ port, close: () => declining.close() })
              })
            )
          }),
          ({ close }) => Effect.sync(close)
        ).pipe(Effect.map(({ port }) => port))
        const url = `postgres://me:p4ssw0rd@127.0.0.1:${port}/feed`
        for (const sslmode of ["require", "verify-ca", "verify-full"]) {
          yield* refusal(at(url, {}, { sslmode, sslrootcert: trusted.certificate }))
        }
        assert.isAbove(received.length, 2)
        // the message SSLRequest
        for (const message of received) assert.strictEqual(message, "0000000804d2162f")
      }))

    describe("that asks for a client certificate", () => {
      const certified = { host: "localhost", user: "certified" }
      const verified = Effect.map(Servers, ({ trusted }) => ({
        sslmode: "verify-full",
        sslrootcert: trusted.certificate
      }))

      it.effect("is used with sslcert and sslkey, even if the key has a password", () =>
        Effect.gen(function*() {
          const { client, folder, url } = yield* Servers
          const own = { ...(yield* verified), sslcert: client.certificate, sslkey: client.key }
          assert.isTrue(yield* isEncrypted(at(url, certified, own)))
          const sslkey = join(folder, "encrypted.key")
          execFileSync("openssl", ["ec", "-aes256", "-passout", "pass:k3y", "-in", client.key, "-out", sslkey], {
            stdio: "ignore"
          })
          assert.isTrue(yield* isEncrypted(at(url, certified, { ...own, sslkey, sslpassword: "k3y" })))
          for (const wrong of [{}, { sslpassword: "another" }]) {
            const hint = yield* refusal(at(url, certified, { ...own, sslkey, ...wrong }))
            assert.match(hint, /sslkey names .* holds no key that sslpassword decrypts/)
          }
        }))

      it.effect("refuses a client without one, and the message names sslcert", () =>
        Effect.gen(function*() {
          const hint = yield* refusal(at((yield* Servers).url, certified, yield* verified))
          assert.match(hint, /refuses the login.*client certificate is required \(sslcert, sslkey\)/)
        }))

      it.effect("refuses a certificate of another authority", () =>
        Effect.gen(function*() {
          const { stranger, url } = yield* Servers
          const own = { sslcert: stranger.certificate, sslkey: stranger.key }
          assert.match(
            yield* refusal(at(url, certified, { ...(yield* verified), ...own })),
            /encrypted connection|login/
          )
        }))

      it.effect("is not asked if a file is missing, is not a certificate, or the key belongs to another one", () =>
        Effect.gen(function*() {
          const { client, folder, stranger, url } = yield* Servers
          const text = join(folder, "notes.txt")
          writeFileSync(text, "n0t-a-certificate")
          const own = { ...(yield* verified), sslcert: client.certificate, sslkey: client.key }
          const table = [
            [{ sslrootcert: join(folder, "none.crt") }, /sslrootcert names .* cannot be read \(ENOENT\)/],
            [{ sslrootcert: text }, /sslrootcert names .* holds no certificate in PEM format/],
            [{ sslcert: text }, /sslcert names .* holds no certificate/],
            [{ sslkey: text }, /sslkey names .* holds no key/],
            [{ sslkey: folder }, /sslkey names .* cannot be read/],
            [{ sslkey: stranger.key }, /sslcert and sslkey .* do not belong together/]
          ] as const
          for (const [change, expected] of table) {
            const hint = yield* refusal(at(url, certified, { ...own, ...change }))
            assert.match(hint, expected)
            assert.notInclude(hint, "n0t-a")
          }
        }))
    })

    it.effect("is used by `doctor` and `store adopt`, which say why if it is refused", () =>
      Effect.gen(function*() {
        const { other, trusted, url } = yield* Servers
        const examined = (sslrootcert: string, more: Readonly<Record<string, string>> = {}) =>
          Effect.promise(async () => {
            const variables = {
              ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
              ROLLCALL_API_KEY: "k",
              ROLLCALL_HTTP_PORT: "0",
              ...more,
              DATABASE_URL: at(url, local, { sslmode: "verify-full", sslrootcert })
            }
            const [doctor, adopt] = [
              await run(["doctor", "--json"], variables),
              await run(["store", "adopt"], variables)
            ]
            return { doctor: doctor.stdout, adopt: adopt.stderr }
          })
        const accepted = yield* examined(trusted.certificate)
        assert.include(accepted.doctor, "there is no store at")
        assert.include(accepted.adopt, "there is no store at")
        // a variable of Node.js that switches the verification off
        const refused = yield* examined(other.certificate, { NODE_TLS_REJECT_UNAUTHORIZED: "0" })
        for (const text of [refused.doctor, refused.adopt]) {
          assert.include(text, "an encrypted connection to the database could not be established")
          assert.notInclude(text, new URL(url).password)
        }
      }))

    const noBouncer = PgBouncer.missing
    it.effect.skipIf(noBouncer !== null)(
      `is verified behind PgBouncer too${noBouncer === null ? "" : `, skipped: ${noBouncer}`}`,
      () =>
        Effect.gen(function*() {
          const { other, server, trusted, url } = yield* Servers
          const ignored = ["search_path", "default_transaction_isolation", "idle_in_transaction_session_timeout"]
          const pooled = yield* PgBouncer.pooled(url, { mode: "session", ignored, tls: server })
          // the settings of sessions do not pass: so the connection itself worked
          const through = (sslrootcert: string) => refusal(at(pooled, local, { sslmode: "verify-full", sslrootcert }))
          assert.match(yield* through(trusted.certificate), /a connection pooler drops the settings/)
          assert.match(yield* through(other.certificate), /an encrypted connection/)
        })
    )
  })
}, Server.ownMissing)

describe("the address of a database", () => {
  it("that names a Unix socket is not encrypted, whatever its sslmode is", () => {
    assert.strictEqual(locationOf("postgres:///x?host=/run/postgresql&sslmode=verify-full").tls, "off")
  })
})
