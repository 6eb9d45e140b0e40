/** Errors of the store in PostgreSQL: their messages for people, and that they contain no stored value and no password. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { inspect } from "node:util"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import { headOf, reasonOf, stateOf, tags, testsIn } from "../../conformance/StoreSamples.ts"
import { onServer, open, optionsOf } from "./Opened.ts"
import * as Server from "./Server.ts"

const { database } = Server.ofFile()

const live = testsIn(Layer.empty, Effect.map(database, (url) => ({ open: open(url), url })), it.live)
const refusal = (url: string) => Effect.flip(Effect.scoped(Layer.build(Postgres.layer(optionsOf(url)))))
/** Everything that a careless log could print of an error. */
const everything = (value: unknown) => inspect(value, { depth: Infinity, showHidden: true })

onServer("an error of the store in PostgreSQL", () => {
  live("contains no value of a row, in any nested cause (I11)", function*({ open }) {
    const { sql, store } = yield* open
    const person = "Erika Mustermann"
    yield* store.ensureStreams([stateOf({ ...tags, integration: person })])
    const failing = [
      sql`INSERT INTO streams ${sql.insert({ integration: person, model: tags.model, state: person })}`,
      sql`INSERT INTO streams ${sql.insert({ integration: person, model: "ats.offer", state: null })}`,
      sql`UPDATE log_counter SET position = ${person}`,
      sql`SELECT ${person}::date`,
      sql`INSERT INTO heads ${sql.insert({ stream: 1, id: `${person}\u0000` })}`
    ]
    for (const statement of failing) {
      const error = yield* Effect.flip(statement)
      assert.notInclude(everything(error), person)
      assert.notInclude(everything(error), "Erika")
    }
    const unique = yield* Effect.flip(failing[0]!)
    assert.include(everything(unique), "streams_integration_model_key")
    const owner = yield* store.takeOwnership("capture")
    const exit = yield* Effect.exit(
      store.transact(
        owner,
        { ...tags, integration: person },
        (tx) => tx.write([{ head: headOf("a", { textHash: `${person}\u0000` }), events: [] }])
      )
    )
    assert.strictEqual(reasonOf(exit), "Unavailable")
    assert.notInclude(everything(Exit.isFailure(exit) ? exit.cause : exit), "Erika")
  })

  const rejected = [
    ["a wrong password", (url: URL) => (url.password = "wr0ng-s3cret"), /refuses the login/],
    [
      "a database that does not exist",
      (url: URL) => (url.pathname = "/nowhere"),
      /does not exist \(.*\/nowhere, 3D000\); create it/
    ]
  ] as const
  for (const [problem, change, message] of rejected) {
    live(
      `for ${problem} says which database it is and what to do, and contains no password (I11)`,
      function*({ url: given }) {
        const url = new URL(given)
        const { password } = url
        change(url)
        const error = yield* refusal(url.href)
        assert.strictEqual(error.reason._tag, "Misconfigured")
        assert.match(error.message, message)
        assert.include(error.message, url.host)
        for (const secret of [password, "wr0ng-s3cret"]) assert.notInclude(everything(error), secret)
      }
    )
  }

  live("for a schema of another program says so, and the schema stays unchanged", function*({ url }) {
    yield* Server.say(url, "CREATE SCHEMA rollcall CREATE TABLE attendance (pupil text)")
    assert.match((yield* refusal(url)).message, /belongs to another program; configure another database/)
  })

  live("for a user who may not create the schema names the missing right", function*({ url: owned }) {
    const url = new URL(owned)
    const name = url.pathname.slice(1)
    yield* Effect.acquireRelease(
      Server.say(owned, `CREATE ROLE ${name} LOGIN PASSWORD 's3cret'`),
      () => Effect.ignore(Server.say(owned, `DROP ROLE ${name}`))
    )
    url.username = name
    url.password = "s3cret"
    const error = yield* refusal(url.href)
    assert.match(error.message, /must own the schema "rollcall" or be allowed to create it/)
    assert.notInclude(everything(error), "s3cret")
  })
})
