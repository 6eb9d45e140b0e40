/** Handlers as async functions: their types, their failures, and calls that they do not await. */
import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Testing from "../testing/Testing.ts"
import * as Plugin from "./Plugin.ts"

const config = Config.all({ hris: Config.String("HRIS") })

const welcome = Plugin.make("welcome", { needs: { writes: ["addTag", "createEmployee"] }, config })
  .on(
    "ats.application.hired",
    {},
    async (event, { api, config: { hris }, fetch, journal, records }) => {
      const outcome: string | null | undefined = event.after.outcome
      const application = await records.get("ats.application", event.recordId)
      const employee = await journal.oncePerRecord("employee", async () => {
        const { id } = await api.for(hris).createEmployee({ properties: { outcome: outcome ?? null } })
        return { id, of: application?.id }
      })
      const id: string | null = employee.id
      await journal.once("tell", async () => {
        const { status } = await fetch("https://hooks.example/in", { method: "POST", body: JSON.stringify({ id }) })
        if (status === 429) throw Plugin.RateLimited.after("1 minute")
      })
      await api.addTag(event.after.candidate_id ?? "", { tag: { name: "hired" } })
    }
  )
  .on(
    "ats.tag.updated",
    { changed: ["name"] },
    async (event) => {
      const changed: ReadonlyArray<"name"> = event.changed
      const before: string | null | undefined = event.change.name?.before
      await Promise.resolve([changed, before])
    }
  )
  .batch(
    "ats.application.declined",
    { size: 10, within: "1 minute" },
    async (events) => {
      const first: string | undefined = events[0]?.transition.name
      await Promise.resolve(first)
    }
  )
  .every(
    "1 day",
    { as: "digest" },
    async (tick, { events }) => {
      const hired = await events.between("ats.application.hired", tick.from, tick.to)
      const ids: ReadonlyArray<string> = hired.map(({ recordId }) => recordId)
      await Promise.resolve(ids)
    }
  )
  .with({ values: { HRIS: "sandbox:people" } })

/** Never run: these cases are checked by the compiler. */
export const refused = () => [
  Plugin.make("x")
    .on(
      "ats.tag.deleted",
      {},
      async (event) => {
        // @ts-expect-error a delete has no content after
        await Promise.resolve(event.after.name)
      }
    ),
  Plugin.make("x", { needs: { writes: ["addTag"] }, config })
    .on(
      "ats.tag.created",
      {},
      async (_event, { api, config }) => {
        // @ts-expect-error a write takes its body
        await api.addTag("c1")
        // @ts-expect-error no such value is configured
        await Promise.resolve(config.nope)
      }
    )
]

const hired = Testing.event("ats.application.hired", { after: { id: "a1", candidate_id: "c1" } })
const tag = Testing.event("ats.tag.created", {})
const failing = (thrown: unknown) =>
  Plugin.make("failing").on(
    "ats.tag.created",
    { attempts: 2 },
    async () => {
      await Promise.resolve()
      throw thrown
    }
  )

describe("a handler as an async function", () => {
  it("has the same capabilities as an Effect handler, and a crash at any point repeats no write", async () => {
    const http = [{ status: 429 }, "unreachable", { status: 200 }] as const
    const run = await Testing.make(welcome, { http }).deliver(hired)
    assert.deepStrictEqual(run.deliveries.map(({ attempts, state }) => [state, attempts]), [["done", 3]])
    assert.deepStrictEqual(run.journal.map(({ result, step }) => [step, result]), [
      ["employee", { id: "createEmployee-1", of: "a1" }],
      ["tell", null]
    ])
    assert.deepStrictEqual(run.requests.map(({ body }) => body), [
      '{"id":"createEmployee-1"}',
      '{"id":"createEmployee-1"}'
    ])

    const crashes = await Testing.make(welcome, { http: () => ({ status: 200 }) }).crashes(hired)
    assert.include(crashes.map(({ at }) => at), "POST https://hooks.example/in: answered, response not processed")
    for (const { at, result } of crashes) {
      for (const name of ["createEmployee", "addTag"]) {
        assert.isAtMost(result.writes.filter(({ write }) => write === name).length, 1, `${name}: ${at}`)
      }
    }
  })

  it("may pass its capabilities on with a spread", async () => {
    const plugin = Plugin.make("p").on("ats.application.created", {}, async (_, given) => {
      const copy = { ...given }
      assert.deepStrictEqual(
        Object.keys(copy).toSorted(),
        ["api", "config", "events", "fetch", "journal", "records", "signal"]
      )
      assert.isFunction(copy.api.addTag)
    })
    const { deliveries } = await Testing.make(plugin).deliver(Testing.event("ats.application.created", {}))
    assert.deepStrictEqual(deliveries.map(({ state }) => state), ["done"])
  })

  it("a write inside a step is keyed by the step, so an equal write outside the step is sent separately", async () => {
    const plugin = Plugin.make("nested", { needs: { writes: ["addResultLink"] } }).on(
      "ats.tag.created",
      {},
      async (event, { api, journal }) => {
        const same = () => api.addResultLink(event.recordId, { label: "x", url: "https://x.example" })
        await journal.once("inner", async () => void await same())
        await same()
      }
    )
    const run = await Testing.make(plugin).deliver(tag)
    assert.strictEqual(run.writes.length, 2)
    for (const { at, result } of await Testing.make(plugin).crashes(tag)) {
      if (result.failure === null) assert.strictEqual(result.writes.length, 2, at)
    }
  })

  it("fails with the failure that it throws, and any other thrown value is a defect", async () => {
    const failureOf = async (thrown: unknown) => {
      const { deliveries, failure } = await Testing.make(failing(thrown)).deliver(tag)
      return [failure?._tag, deliveries[0]?.attempts]
    }
    assert.deepStrictEqual(await failureOf(new Plugin.Permanent({ message: "no" })), ["Permanent", 1])
    assert.deepStrictEqual(await failureOf(new Plugin.Transient({ message: "later" })), ["Transient", 2])
    assert.deepStrictEqual(await failureOf(new TypeError("oops")), ["Defect", 2])
    assert.deepStrictEqual((await failureOf(Plugin.RateLimited.after("1 second")))[0], "RateLimited")
  })

  it("may be a function that is not declared async, and may throw before it returns a promise", async () => {
    const plugin = (handle: Plugin.HandlerFunction<Plugin.EventOf<"ats.tag.created">, {}>) =>
      Plugin.make("plain", { needs: { writes: ["addTag"] } }).on("ats.tag.created", {}, handle)
    const bound = async function(this: string, { recordId }: { readonly recordId: string }, { api }: Plugin.Given<{}>) {
      await api.addTag(recordId, { tag: { name: this } })
    }.bind("x")
    assert.lengthOf((await Testing.make(plugin(bound)).deliver(tag)).writes, 1)
    const { failure } = await Testing.make(plugin(() => {
      throw new Plugin.Permanent({ message: "no" })
    })).deliver(tag)
    assert.strictEqual(failure?._tag, "Permanent")
  })

  it("that returns an Effect cannot call these capabilities, neither before nor in the Effect", async () => {
    const link = { label: "x", url: "https://x.example" }
    const handlers: ReadonlyArray<Plugin.HandlerFunction<Plugin.EventOf<"ats.tag.created">, {}>> = [
      ({ recordId }, { api }) => {
        void api.addResultLink(recordId, link)
        return Effect.void
      },
      // a write here would not belong to the step
      ({ recordId }, { api }) =>
        Plugin.Journal.oncePerRecord("link", Schema.Json, Effect.promise(() => api.addResultLink(recordId, link)))
          .pipe(Effect.asVoid)
    ]
    for (const handle of handlers) {
      const plugin = Plugin.make("mixed", { needs: { writes: ["addResultLink"] } })
        .on("ats.tag.created", { attempts: 1 }, handle)
      const { failure } = await Testing.make(plugin).deliver(tag)
      assert.match(failure?._tag === "Defect" ? failure.message : "", /use the services, such as Plugin\.Api/)
    }
  })

  it("can catch the failure of a capability", async () => {
    const seen: Array<string> = []
    const plugin = Plugin.make("catching", { needs: { writes: ["createEmployee"] } }).on(
      "ats.tag.created",
      {},
      async (_, { api }) => {
        try {
          await api.createEmployee({ properties: {} })
        } catch (error) {
          if (!(error instanceof Plugin.Permanent) || error.refusal !== "EmployeeAlreadyExists") throw error
          seen.push(error.refusal)
        }
      }
    )
    const faults = [{ on: "createEmployee", fail: "EmployeeAlreadyExists" }] as const
    const { failure } = await Testing.make(plugin, { faults }).deliver(tag)
    assert.deepStrictEqual([failure, seen], [null, ["EmployeeAlreadyExists"]])
  })

  it("after its timeout its signal is aborted, and its capabilities do nothing (X16)", async () => {
    const aborted: Array<boolean> = []
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const plugin = Plugin.make("late", { needs: { writes: ["addTag"] } }).on(
      "ats.tag.created",
      { timeout: "10 seconds", attempts: 1 },
      async (event, { api, signal }) => {
        await held
        aborted.push(signal.aborted)
        await api.addTag(event.recordId, { tag: { name: "x" } })
      }
    )
    const testing = Testing.make(plugin)
    const { failure, writes } = await testing.deliver(tag)
    release()
    await held
    await Promise.resolve()
    assert.deepStrictEqual([failure?._tag, writes.length, aborted], ["Transient", 0, [true]])
  })
})

describe("a call that an async function does not await", () => {
  type Handle = Plugin.HandlerFunction<Plugin.EventOf<"ats.tag.created">, {}>
  const plugin = (handle: Handle, options = {}) =>
    Plugin.make("hasty", { needs: { writes: ["addTag", "removeTag"] } }).on("ats.tag.created", {
      attempts: 2,
      ...options
    }, handle)
  const refused = { faults: [{ on: "addTag", fail: "Forbidden", times: 9 }] } as const
  const tagged = { tag: { name: "x" } }

  it("is waited for, including the calls that follow it (L22)", async () => {
    const run = await Testing.make(plugin(async ({ recordId }, { api }) => {
      void (async () => {
        await api.addTag(recordId, tagged)
        await api.removeTag(recordId, tagged)
      })()
    })).deliver(tag)
    assert.deepStrictEqual(run.writes.map(({ write }) => write), ["addTag", "removeTag"])
    assert.deepStrictEqual(run.deliveries.map(({ attempts, state }) => [state, attempts]), [["done", 1]])
  })

  it("fails the attempt with its own failure, and the message says that it was not awaited (L22)", async () => {
    const { failure } = await Testing.make(
      plugin(async ({ recordId }, { api }) => void api.addTag(recordId, tagged)),
      refused
    ).deliver(tag)
    if (failure?._tag !== "Permanent") return assert.fail(`it ended as ${failure?._tag}`)
    assert.strictEqual(failure.refusal, "Forbidden")
    assert.match(failure.message, /^api\.addTag failed, and its promise was not awaited: /)
  })

  it("is tried again if it was rate limited, which uses up no attempt (L22)", async () => {
    const { deliveries, writes } = await Testing.make(
      plugin(async ({ recordId }, { api }) => void api.addTag(recordId, tagged), { attempts: 1 }),
      { faults: [{ on: "addTag", fail: "RateLimited", times: 3 }] }
    ).deliver(tag)
    assert.deepStrictEqual([deliveries[0]?.state, deliveries[0]?.attempts, writes.length], ["done", 4, 1])
  })

  it("fails the attempt if it failed before the handler ended (L22)", async () => {
    const { failure } = await Testing.make(
      plugin(async ({ recordId }, { api }) => {
        void api.addTag(recordId, tagged)
        await api.live("ats.tag", recordId)
        await api.live("ats.tag", recordId)
      }),
      refused
    ).deliver(tag)
    assert.strictEqual(failure?._tag, "Permanent")
  })

  it("fails the step that made it, so the step has no result (L22)", async () => {
    const { failure, journal } = await Testing.make(
      plugin(async ({ recordId }, { api, journal }) => {
        await journal.once("step", async () => void api.addTag(recordId, tagged))
      }),
      refused
    ).deliver(tag)
    assert.strictEqual(failure?._tag, "Permanent")
    assert.deepStrictEqual(journal, [])
  })

  it("is a defect that names the call if it threw another error (L22)", async () => {
    const { failure } = await Testing.make(plugin(async (_, { journal }) => {
      void journal.once("step", () => Promise.reject(new TypeError("oops")))
    })).deliver(tag)
    assert.strictEqual(failure?._tag, "Defect")
    assert.match(
      failure?._tag === "Defect" ? failure.message : "",
      /journal\.once failed, and its promise was not awaited/
    )
  })

  it("is a defect that says what to write if a step is a promise instead of a function", async () => {
    const { failure } = await Testing.make(plugin(async (_, { journal }) => {
      await journal.once("step", Promise.resolve() as never)
    })).deliver(tag)
    assert.strictEqual(failure?.message, "journal.once needs a function: write async () => { … }")
  })

  it("does not fail the attempt if the handler awaits it late or catches its failure (L22)", async () => {
    const seen: Array<string> = []
    const { failure } = await Testing.make(
      plugin(async ({ recordId }, { api }) => {
        void api.addTag(recordId, tagged).catch(() => seen.push("caught"))
        const late = api.addTag(recordId, tagged)
        await Promise.race([api.live("ats.tag", recordId), api.addTag("other", tagged)])
        await Promise.allSettled([api.addTag("third", tagged)])
        await api.live("ats.tag", recordId)
        try {
          await late
        } catch {
          seen.push("late")
        }
      }),
      refused
    ).deliver(tag)
    assert.deepStrictEqual([failure, seen.toSorted()], [null, ["caught", "late"]])
  })

  it("is waited for if the handler itself fails, and does not hide the handler's failure (L22)", async () => {
    const { failure, writes } = await Testing.make(plugin(async ({ recordId }, { api }) => {
      void api.addTag(recordId, tagged)
      throw new Plugin.Permanent({ message: "its own" })
    })).deliver(tag)
    assert.deepStrictEqual([failure?._tag === "Permanent" && failure.message, writes.length], ["its own", 1])
  })
})
