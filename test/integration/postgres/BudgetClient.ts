/**
 * A process of a fleet that sends as many requests as it may, until it is killed. Arguments: its name, the URLs of the database and of the
 * API, the account's concurrency. The integrations of its requests start with its name.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as SharedBudget from "../../../src/source/SharedBudget.ts"
import { Source } from "../../../src/source/Source.ts"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"

const [name, database, url, concurrency] = process.argv.slice(2)

const budget = Layer.provide(
  SharedBudget.layer,
  Postgres.layer({ url: Redacted.make(database ?? ""), name: "the test's database" })
)
const api = UnifiedApi.layer({
  accounts: {
    default: { url: url ?? "", key: Effect.succeed(Redacted.make("the-key")), concurrency: Number(concurrency) }
  },
  retryBase: "100 millis",
  timeout: "1 second"
}).pipe(Layer.provide([UnifiedApi.httpClient, budget]))

const program = Effect.gen(function*() {
  const { page } = yield* Source
  yield* Effect.forEach(Array.from({ length: 2 * Number(concurrency) }), (_, index) =>
    page({
      account: "default",
      integration: `${name}:${index}`,
      model: "ats.tag",
      priority: "poll",
      cursor: null,
      updatedAfter: null,
      ids: null
    }).pipe(Effect.ignore, Effect.forever), { concurrency: "unbounded" })
})

await Effect.runPromise(Effect.provide(program, api))
