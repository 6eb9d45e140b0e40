/** The test kit, used with correct and with faulty plugins. */
import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Schema from "effect/Schema"
import * as Plugin from "../plugin/Plugin.ts"
import * as Testing from "./Testing.ts"

const Employee = Schema.Struct({ id: Schema.NullOr(Schema.String) })
const config = Config.all({ hris: Config.String("HRIS") })

/** Creates one employee per application, links it, and tags the candidate. */
const unconfigured = Plugin.make("welcome", {
  config,
  needs: { writes: ["createEmployee", "addResultLink", "addTag"] }
}).on(
  "ats.application.hired",
  {},
  Effect.fnUntraced(function*(event, { config: { hris } }) {
    const people = yield* Plugin.Api.for(hris)
    const employee = yield* Plugin.Journal.oncePerRecord(
      "employee",
      Employee,
      people.createEmployee({ properties: { name: event.recordId } })
    )
    const api = yield* Plugin.Api
    yield* api.addResultLink(event.recordId, { label: "Employee", url: `https://hr.example/${employee.id}` })
    yield* api.addTag(event.after.candidate_id ?? "", { tag: { name: "hired" } })
  })
)
const welcome = unconfigured.with({ values: { HRIS: "sandbox:people" } })

/** Never run: these cases are checked by the compiler. */
export const refused = () => [
  // @ts-expect-error a delete has no content after
  Testing.event("ats.tag.deleted", { after: { name: "x" } }),
  // @ts-expect-error a tag has no such property
  Testing.event("ats.tag.created", { after: { outcome: "HIRED" } }),
  // @ts-expect-error an update needs `before`
  Testing.event("ats.tag.updated", { after: { name: "x" } }),
  // @ts-expect-error a tag has no such transition
  Testing.event("ats.tag.hired", {}),
  // @ts-expect-error a skill has no such property
  Testing.record("hris.skill", { outcome: "HIRED" }),
  // @ts-expect-error the API has no such call
  Testing.make(welcome, { faults: [{ on: "addTags", fail: "Transient" }] }),
  // @ts-expect-error the API has no such refusal
  Testing.make(welcome, { faults: [{ on: "addTag", fail: "Nope" }] })
]

const hired = Testing.event("ats.application.hired", { after: { id: "a1", candidate_id: "c1" } })
const candidate = Testing.record("ats.candidate", { id: "c1" })
const namesOf = (run: Testing.Result) => run.writes.map(({ write }) => write)

describe("rollcall/testing", () => {
  it("delivers an event, and returns its writes with their integrations", async () => {
    const testing = Testing.make(welcome, { records: [candidate] })
    const run = await testing.deliver(hired)
    assert.deepStrictEqual(run.deliveries, [
      { handler: "ats.application.hired", state: "done", attempts: 1, failure: null }
    ])
    assert.deepStrictEqual(run.writes, [
      { integration: "sandbox:people", write: "createEmployee", id: null, body: { properties: { name: "a1" } } },
      {
        integration: "sandbox:test",
        write: "addResultLink",
        id: "a1",
        body: { label: "Employee", url: "https://hr.example/createEmployee-1" }
      },
      { integration: "sandbox:test", write: "addTag", id: "c1", body: { tag: { name: "hired" } } }
    ])
    assert.deepStrictEqual(run.journal, [
      { handler: "ats.application.hired", step: "employee", result: { id: "createEmployee-1" } }
    ])
    // a candidate has no list of its own: the API returns it in its applications
    assert.deepStrictEqual(testing.live("ats.application", "a1")?.candidate?.tags?.map(({ name }) => name), ["hired"])
  })

  it("runs a step once per record, however often the record is hired (T1)", async () => {
    const testing = Testing.make(welcome)
    await testing.deliver(hired)
    const again = await testing.deliver(
      Testing.event("ats.application.hired", { version: 4, after: { id: "a1", candidate_id: "c1" } })
    )
    assert.deepStrictEqual(namesOf(again), ["addResultLink", "addTag"])
    const replayed = await testing.deliver(hired)
    assert.deepStrictEqual([replayed.failure, namesOf(replayed)], [null, []])
  })

  it("crashes at each point in turn, and repeats no write (L5)", async () => {
    const crashes = await Testing.make(welcome).crashes(hired)
    assert.deepStrictEqual(crashes.map(({ at }) => at), [
      'step "employee": about to run',
      "createEmployee: about to be sent",
      "createEmployee: done, response not recorded",
      "createEmployee: done",
      'step "employee": done, result not recorded',
      'step "employee": done',
      "addResultLink: about to be sent",
      "addResultLink: done, response not recorded",
      "addResultLink: done",
      "addTag: about to be sent",
      "addTag: done, response not recorded",
      "addTag: done"
    ])
    for (const { at, result } of crashes) {
      const unknown = /^(createEmployee|addResultLink): (about|done, )/.test(at)
      assert.strictEqual(result.failure?._tag, unknown ? "Permanent" : undefined, at)
      for (const write of new Set(namesOf(result))) {
        assert.strictEqual(namesOf(result).filter((name) => name === write).length, 1, `${write} twice: ${at}`)
      }
      if (!unknown) assert.strictEqual(result.writes.length, 3, at)
    }
  })

  it("shows a write twice if it is wrongly declared repeatable", async () => {
    const careless = Plugin.make("careless", { needs: { writes: ["addResultLink"] } }).on(
      "ats.tag.created",
      {},
      Effect.fnUntraced(function*(event) {
        const api = yield* Plugin.Api
        yield* api.addResultLink(event.recordId, { label: "x", url: "https://x.example" }, { onUnknown: "repeat" })
      })
    )
    const crashes = await Testing.make(careless).crashes(Testing.event("ats.tag.created", {}))
    assert.deepStrictEqual(crashes.map(({ result }) => result.writes.length), [1, 2, 1])
  })

  it("fails calls as set by the test, and retries by the rules of the service in virtual time", async () => {
    const seen: Array<number> = []
    const plugin = Plugin.make("tags", { needs: { writes: ["addTag"] } }).on(
      "ats.tag.created",
      { attempts: 3, retry: { first: "1 minute" } },
      Effect.fnUntraced(function*(event) {
        seen.push(yield* Effect.clockWith((clock) => clock.currentTimeMillis))
        const api = yield* Plugin.Api
        yield* api.addTag(event.recordId, { tag: { name: "x" } })
      })
    )
    const event = Testing.event("ats.tag.created", {})
    const of = async (...faults: ReadonlyArray<Testing.Fault>) => {
      const run = await Testing.make(plugin, { faults }).deliver(event)
      return [run.deliveries[0]?.state, run.deliveries[0]?.attempts, run.writes.length, run.failure?._tag]
    }
    assert.deepStrictEqual(await of({ on: "addTag", fail: "Transient" }), ["done", 2, 1, undefined])
    assert.strictEqual((seen[1] ?? 0) - (seen[0] ?? 0), 60_000)
    assert.deepStrictEqual(await of({ on: "addTag", fail: "Transient", times: 3 }), ["dead", 3, 0, "Transient"])
    assert.deepStrictEqual(await of({ on: "addTag", fail: "RateLimited", times: 9 }), ["done", 10, 1, undefined])
    const both: ReadonlyArray<Testing.Fault> = [{ on: "addTag", fail: "RateLimited", times: 2 }, {
      on: "addTag",
      fail: "Transient",
      after: 2,
      times: 2
    }]
    assert.deepStrictEqual(await of(...both), ["done", 5, 1, undefined])
    assert.deepStrictEqual(await of({ on: "addTag", fail: "Forbidden" }), ["dead", 1, 0, "Permanent"])
    assert.deepStrictEqual(await of({ on: "addTag", fail: "Unauthorized", times: 20 }), ["done", 21, 1, undefined])
    assert.deepStrictEqual(await of({ on: "addTag", fail: "Inactive", times: 1_000 }), ["dead", 100, 0, "Blocked"])
    assert.deepStrictEqual(await of({ on: "addTag", fail: "response lost" }), ["done", 2, 1, undefined])
    assert.deepStrictEqual(await of({ on: "addTag", fail: "request lost" }), ["done", 3, 1, undefined])
    assert.deepStrictEqual(
      await of({ on: "addTag", fail: "response lost" }, { on: "addTag", fail: "Inactive", after: 1 }),
      ["done", 2, 1, undefined]
    )
  })

  it("rejects a write that the plugin does not declare, and shows the line that declares it", async () => {
    const plugin = Plugin.make("hasty").on(
      "ats.tag.created",
      {},
      ({ recordId }) => Effect.flatMap(Plugin.Api, (api) => api.addTag(recordId, { tag: { name: "x" } }))
    )
    const { failure, writes } = await Testing.make(plugin).deliver(Testing.event("ats.tag.created", {}))
    assert.deepStrictEqual(writes, [])
    assert.ok(failure?._tag === "Permanent" && failure.refusal === "Undeclared")
    assert.include(failure.message, `write needs: { writes: ["addTag"] } in its definition`)
  })

  it("rejects an invalid write with all its faults", async () => {
    const plugin = Plugin.make("invalid", { needs: { writes: ["createEmployee"] } }).on(
      "ats.tag.created",
      {},
      Effect.fnUntraced(function*(event) {
        const api = yield* Plugin.Api
        yield* api.createEmployee({ properties: { age: event.recordId } }, {
          form: { properties: { name: { type: "text", required: true }, age: { type: "number" } } }
        })
      })
    )
    const { failure, writes } = await Testing.make(plugin).deliver(Testing.event("ats.tag.created", {}))
    assert.deepStrictEqual(writes, [])
    assert.ok(failure?._tag === "Permanent" && failure.refusal === "Invalid")
    assert.deepStrictEqual(failure.faults.map(({ path, rule }) => [path, rule]), [
      ["/body/properties/name", "required"],
      ["/body/properties/age", "type"]
    ])
  })

  it("writes over the hourly budget of the plugin in an integration wait for the next hour, as in the service", async () => {
    const limited = Plugin.make("limited", { needs: { writes: ["addTag"] }, writesPerHour: 2 }).batch(
      "ats.tag.created",
      { size: 10, within: "1 minute" },
      Effect.fnUntraced(function*(events) {
        const api = yield* Plugin.Api
        for (const { recordId } of events) yield* api.addTag(recordId, { tag: { name: "new" } })
      })
    )
    const tags = (...ids: ReadonlyArray<string>) => ids.map((id) => Testing.event("ats.tag.created", { after: { id } }))
    const testing = Testing.make(limited, {
      records: ["t1", "t2", "t3", "t4", "t5"].map((id) => Testing.record("ats.candidate", { id }))
    })
    const attemptsOf = ({ deliveries, failure, writes }: Testing.Result) => [
      failure,
      writes.length,
      deliveries.map(({ attempts, state }) => [state, attempts])
    ]
    assert.deepStrictEqual(attemptsOf(await testing.deliver(tags("t1"))), [null, 1, [["done", 1]]])
    assert.deepStrictEqual(attemptsOf(await testing.deliver(tags("t2", "t3", "t4"))), [null, 3, [["done", 2]]])
    const elsewhere = Testing.event("ats.tag.created", { integration: "sandbox:other", after: { id: "t5" } })
    assert.deepStrictEqual(attemptsOf(await testing.deliver(elsewhere)), [null, 1, [["done", 1]]])
    assert.deepStrictEqual(attemptsOf(await testing.deliver(tags("t5"))), [null, 1, [["done", 2]]])
  })

  it("an interview of unknown outcome is sent again if the API shows another time, and not otherwise (L5)", async () => {
    const plugin = Plugin.make("mover", { needs: { writes: ["updateInterview"] } }).on(
      "ats.application.hired",
      {},
      Effect.fnUntraced(function*({ recordId }) {
        const api = yield* Plugin.Api
        yield* api.updateInterview(recordId, { interview_id: "i1", start_time: "2026-01-06T10:00:00Z" })
      })
    )
    const interviews = [{ id: "i1", starting_at: "2026-01-05T10:00:00Z" }]
    const event = Testing.event("ats.application.hired", { after: { id: "a1", interviews } })
    for (const fail of ["request lost", "response lost"] as const) {
      const testing = Testing.make(plugin, { faults: [{ on: "updateInterview", fail }] })
      assert.deepStrictEqual(namesOf(await testing.deliver(event)), ["updateInterview"], fail)
    }
  })

  it("a retry inside the handler does not repeat a write", async () => {
    const plugin = Plugin.make("impatient", { needs: { writes: ["addTag"] } }).on(
      "ats.tag.created",
      {},
      Effect.fnUntraced(function*(event) {
        const api = yield* Plugin.Api
        yield* Effect.retry(api.addTag(event.recordId, { tag: { name: "x" } }), { times: 2 })
      })
    )
    const setting: Testing.Setup = { faults: [{ on: "addTag", fail: "response lost" }] }
    const { deliveries, writes } = await Testing.make(plugin, setting).deliver(Testing.event("ats.tag.created", {}))
    assert.deepStrictEqual([deliveries[0]?.attempts, writes.length], [1, 1])
  })

  it("sends two equal writes of one attempt twice, and repeats neither in the next attempt", async () => {
    const plugin = Plugin.make("twice", { needs: { writes: ["addTag", "addResultLink"] } }).on(
      "ats.tag.created",
      {},
      Effect.fnUntraced(function*(event) {
        const api = yield* Plugin.Api
        const link = api.addResultLink(event.recordId, { label: "x", url: "https://x.example" })
        yield* Effect.all([link, link], { concurrency: "unbounded" })
        yield* api.addTag(event.recordId, { tag: { name: "x" } })
      })
    )
    const setup: Testing.Setup = { faults: [{ on: "addTag", fail: "Transient" }] }
    const run = await Testing.make(plugin, setup).deliver(Testing.event("ats.tag.created", {}))
    assert.deepStrictEqual(namesOf(run), ["addResultLink", "addResultLink", "addTag"])
  })

  it("a step that must not be repeated has an unknown outcome after a request without a response or with a 5xx, except a GET (L5)", async () => {
    const pluginOf = (method: "GET" | "POST") =>
      Plugin.make("hook").on("ats.tag.created", {}, () =>
        Effect.asVoid(Plugin.Journal.once(
          "send",
          Schema.Number,
          HttpClient.execute(HttpClientRequest.make(method)("https://hooks.example/in")).pipe(
            Effect.catchTag("HttpClientError", () => new Plugin.Transient({ message: "no answer" })),
            Effect.flatMap(({ status }) =>
              status === 200 ? Effect.succeed(status) : new Plugin.Transient({ message: "not accepted" })
            )
          ),
          { onUnknown: "deadLetter" }
        )))
    const of = async (method: "GET" | "POST", first: Testing.MockResponse) => {
      const http = [first, { status: 200 }]
      const { failure } = await Testing.make(pluginOf(method), { http }).deliver(Testing.event("ats.tag.created", {}))
      return failure?._tag === "Permanent" ? failure.refusal : failure
    }
    assert.strictEqual(await of("POST", "response lost"), "OutcomeUnknown")
    assert.strictEqual(await of("POST", "unreachable"), "OutcomeUnknown")
    assert.strictEqual(await of("POST", { status: 503 }), "OutcomeUnknown")
    assert.isNull(await of("POST", { status: 429 }))
    assert.isNull(await of("GET", "response lost"))
  })

  it("answers HTTP requests, and returns them", async () => {
    const plugin = Plugin.make("hook").on(
      "ats.tag.created",
      { retry: { first: "10 minutes" } },
      Effect.fnUntraced(function*(event) {
        yield* HttpClient.post("https://hooks.example/in", { headers: { "x-id": event.id } }).pipe(
          Effect.flatMap(({ status }) =>
            status === 429 ? Effect.fail(Plugin.RateLimited.after("1 minute")) : Effect.void
          ),
          Effect.catchTag("HttpClientError", () => new Plugin.Transient({ message: "hooks.example did not answer" }))
        )
      })
    )
    const event = Testing.event("ats.tag.created", {})
    const http = ["unreachable", { status: 429 }, "response lost", { status: 204 }] as const
    const { deliveries, requests } = await Testing.make(plugin, { http }).deliver(event)
    assert.deepStrictEqual([deliveries[0]?.state, deliveries[0]?.attempts, requests.length], ["done", 4, 3])
    assert.deepStrictEqual(requests[0], {
      method: "POST",
      url: "https://hooks.example/in",
      headers: { "x-id": event.id },
      body: ""
    })
  })

  it("ends an attempt that exceeds its timeout in virtual time", async () => {
    const plugin = Plugin.make("slow")
      .on("ats.tag.created", { timeout: "10 seconds", attempts: 2 }, () => Effect.sleep("1 hour"))
      .on("ats.tag.updated", {}, () => Effect.sleep(Duration.seconds(29)))
    const testing = Testing.make(plugin)
    const { failure } = await testing.deliver(Testing.event("ats.tag.created", {}))
    assert.ok(failure?._tag === "Transient")
    assert.include(failure.message, "10s")
    const updated = Testing.event("ats.tag.updated", { before: { id: "t2", name: "a" }, after: { name: "b" } })
    assert.strictEqual((await testing.deliver(updated)).failure, null)
  })

  it("code of an attempt that has ended has no further effect (X16)", async () => {
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const plugin = Plugin.make("stubborn", { needs: { writes: ["addTag"] } }).on(
      "ats.application.hired",
      { attempts: 1 },
      (event) =>
        Effect.promise(() => held).pipe(
          Effect.andThen(Plugin.Api),
          Effect.flatMap((api) => api.addTag(event.after.candidate_id ?? "", { tag: { name: "late" } })),
          Effect.asVoid,
          Effect.uninterruptible
        )
    )
    const testing = Testing.make(plugin)
    assert.strictEqual((await testing.deliver(hired)).failure?._tag, "Transient")
    release()
    await new Promise((resolve) => setImmediate(resolve))
    assert.strictEqual(testing.live("ats.application", "a1")?.candidate, undefined)
  })

  it("rejects an event whose contents do not match its trigger", () => {
    assert.throws(
      () => Testing.event("ats.application.stage_changed", { after: { current_stage_id: "s2" } }),
      /are not a ats.application.stage_changed: set current_stage_id in "before"/
    )
    assert.throws(() => Testing.event("ats.tag.updated", { before: {}, after: { name: "x" } }), /are equal/)
    const rated = Testing.event("hris.performance_review.rated", { after: { summary_rating: { value: "good" } } })
    assert.deepStrictEqual([rated.transition, rated.kind], [{ name: "rated", from: null, to: "good" }, "updated"])
  })

  it("refuses a fault of a call that does not exist, and a value that is not a plugin, because test runners do not compile", () => {
    const misspelled = { faults: [{ on: "addTags", fail: "Transient" }] } as unknown as Testing.Setup
    assert.throws(
      () => Testing.make(welcome, misspelled),
      /faults\[0\]\.on "addTags" is not known\. Did you mean "addTag"\?/
    )
    for (const value of [undefined, null, {}, () => welcome]) {
      assert.throws(() => Testing.make(value as unknown as typeof welcome), /this is not a plugin: pass the result of/)
    }
  })

  it("refuses what the compiler refuses, with the name that was meant, because test runners do not compile", () => {
    const loose = (value: unknown) => value as never
    for (
      const [use, message] of [
        [
          () => Testing.event(loose("ats.application.hird"), loose({})),
          'Testing.event: "ats.application.hird" is not a trigger. Did you mean "ats.application.hired"? The triggers of'
        ],
        [() => Testing.event("ats.tag.created", loose({ afte: {} })), 'afte is not known. Did you mean "after"?'],
        [() => Testing.event("ats.tag.created", loose(undefined)), "the second argument must be an object"],
        [() => Testing.record(loose("hris.skil"), loose({})), '"hris.skil" is not known. Did you mean "hris.skill"?'],
        [() => Testing.make(welcome, loose({ https: [] })), 'https is not known. Did you mean "http"?'],
        [
          () => Testing.make(welcome, loose({ faults: [{ on: "addTag", fail: "RateLimit" }] })),
          'faults[0].fail "RateLimit" is not known. Did you mean "RateLimited"?'
        ]
      ] as const
    ) {
      assert.throws(use, message)
    }
  })

  it("refuses a plugin without a handler, as the service does, because every delivery to it would pass", () => {
    const plugin = Plugin.make("forgetful")
    plugin.on("ats.tag.created", {}, () => new Plugin.Permanent({ message: "no" }))
    assert.throws(() => Testing.make(plugin), /plugin "forgetful" has no handler: `\.on`, .* return a new plugin/)
  })

  it("names a missing configuration value", async () => {
    const error: unknown = await Testing.make(unconfigured).deliver(hired).catch((error) => error)
    assert.match(String(error), /HRIS/)
  })
})
