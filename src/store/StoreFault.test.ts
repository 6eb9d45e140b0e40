/** The fault for each code of a database, and its message. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ConnectionError, SqlError, UnknownError } from "effect/sql/SqlError"
import { postgresTools } from "../../test/support/store/PostgresTools.ts"
import { connectionsPerProcess } from "./postgres/Postgres.ts"
import { ofConnection, ofSqlState, toSqlError } from "./postgres/PostgresFault.ts"
import { fencedError } from "./sql/Fencing.ts"
import { toStoreError } from "./sql/SqlRetry.ts"
import { ofResultCode } from "./sqlite/SqliteFault.ts"
import { type FaultKind, faultKinds, faultOf, StoreFault, traitsOf } from "./StoreFault.ts"

const store = "postgres://db.example/hr"

describe("faults of a store", () => {
  it.each<[code: string, kind: FaultKind | null]>([
    ["08006", "lost"],
    ["25P03", "lost"],
    ["57P01", "lost"],
    ["57P03", "starting"],
    ["53300", "tooManyClients"],
    ["28P01", "login"],
    ["28000", "login"],
    ["3D000", "missing"],
    ["42501", "denied"],
    ["25006", "readOnly"],
    ["53100", "full"],
    ["58030", "disk"],
    ["XX001", "damaged"],
    ["XX002", "damaged"],
    ["58P01", "damaged"],
    ["55P03", "locked"],
    ["57014", "silent"],
    ["53200", "exceeded"],
    ["26000", "pooled"],
    ["42P05", "pooled"],
    ["42P01", "refused"],
    ["54000", "refused"],
    ["40001", null],
    ["40P01", null],
    ["23505", null],
    ["22P02", null]
  ])("SQLSTATE %s is %s", (code, kind) => {
    assert.strictEqual(ofSqlState(code), kind)
  })

  it.each<[code: string | undefined, isMade: boolean, kind: FaultKind]>([
    ["ECONNREFUSED", false, "unreachable"],
    ["ENOTFOUND", false, "unreachable"],
    ["ENOENT", false, "unreachable"],
    ["ECONNRESET", true, "lost"],
    ["EPIPE", true, "lost"],
    [undefined, true, "lost"],
    ["ETIMEDOUT", true, "silent"],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", false, "encryption"],
    ["ERR_TLS_CERT_ALTNAME_INVALID", false, "encryption"],
    ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", false, "encryption"],
    ["EPROTO", false, "encryption"]
  ])("a connection's %s (made: %s) is %s", (code, isMade, kind) => {
    assert.strictEqual(ofConnection(code, isMade), kind)
  })

  it.each<[code: number, kind: FaultKind | null]>([
    [5, "locked"],
    [261, "locked"],
    [8, "readOnly"],
    [1032, "readOnly"],
    [10, "disk"],
    [778, "disk"],
    [11, "damaged"],
    [267, "damaged"],
    [13, "full"],
    [14, "unopenable"],
    [26, "damaged"],
    [1, "refused"],
    [19, null],
    [2067, null]
  ])("SQLite's %i is %s", (code, kind) => {
    assert.strictEqual(ofResultCode(code), kind)
  })

  it.each(faultKinds.map((kind) => [kind]))("%s has a message with cause, store and remedy", (kind) => {
    const fault = new StoreFault(kind, store, "C0DE")
    assert.include(fault.message, traitsOf(kind).description)
    assert.include(fault.message, `(${store}, C0DE)`)
    assert.isAbove(fault.hint.length, 10)
    assert.strictEqual(new Set(faultKinds.map((each) => traitsOf(each).description)).size, faultKinds.length)
  })

  it("a fault of SQLite names no tool, setting or log of a database server", () => {
    const codes = Array.from({ length: 28 }, (_, code) => code + 1)
    const kinds = new Set([...codes.flatMap((code) => ofResultCode(code) ?? []), "silent", "slow"] as const)
    for (const kind of kinds) {
      const { description, remedy } = traitsOf(kind)
      assert.notMatch(`${description}; ${remedy}`, postgresTools, kind)
      // a file has neither a server nor a log
      assert.notMatch(description, /server/, kind)
      assert.notMatch(remedy.replaceAll(/for a server[^,;]*/g, ""), /server|\blog\b/, kind)
    }
  })

  it("a server without a free connection is reported with the number of connections that a process uses", () => {
    assert.match(traitsOf("tooManyClients").remedy, new RegExp(`each process uses up to ${connectionsPerProcess}$`))
  })

  it.each([
    ["a connection that timed out", "PgConnection: Connection timed out", undefined, "silent"],
    ["a server without TLS", "PgConnection: Server refused TLS", undefined, "encryption"],
    ["a server that is down", "PgConnection: Failed to connect", "ECONNREFUSED", "unreachable"]
  ])("%s is recognized by the driver's message", (_, message, code, kind) => {
    const cause = Object.assign(new Error("secret"), code === undefined ? {} : { code })
    const error = toSqlError(
      store,
      new SqlError({ reason: new ConnectionError({ cause, message, operation: "connect" }) })
    )
    assert.strictEqual(faultOf(error)?.kind, kind)
  })

  it.effect("reach the caller with cause, store and remedy, without the database's message (I11)", () =>
    Effect.gen(function*() {
      const serverError = Object.assign(new Error("relation of Erika"), { code: "53100", severity: "ERROR" })
      const error = toSqlError(store, new SqlError({ reason: new UnknownError({ cause: serverError }) }))
      const { message } = yield* Effect.flip(toStoreError("write")(Effect.fail(error)))
      assert.strictEqual(message, `the disk of the database is full (${store}, 53100); free space on it.`)
    }))
})

describe("the error of a process that was replaced", () => {
  it("names the streams and not the shard, and says what to do with each database (X9)", () => {
    const { message } = fencedError({ scope: "capture/12", epoch: 3 })
    assert.match(message, /^another process owns "capture" now; this process stops writing\. Nothing is lost\./)
    assert.match(message, /SQLite store allows only one process: .* give each its own store/)
    assert.match(
      message,
      /PostgreSQL, .*share the work\..*take it back from .*start --once.*repeat it.*store adopt.*start this process again/
    )
  })
})
