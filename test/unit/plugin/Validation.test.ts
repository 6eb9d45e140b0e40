/** Plugins in plain JavaScript: what types would have refused is found by itself. */
import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import * as Testing from "../../../src/testing/Testing.ts"

/** As JavaScript sees it: nothing is checked while it is written. */
const make: any = Plugin.make
const nothing = () => Effect.void
const on = (options: unknown, handle: unknown = nothing) => make("p").on("ats.tag.created", options, handle)

const faultsOf = ({ issues }: Plugin.Plugin<unknown>) => issues.map(({ hint, message }) => `${message}. ${hint}`)

const cases: ReadonlyArray<readonly [what: string, plugin: Plugin.Plugin<unknown>, fault: RegExp]> = [
  [
    "a time-out that is no length of time",
    on({ timeout: "1 minit" }),
    /timeout "1 minit" is no length of time\. .*"30 seconds"/
  ],
  ["a time-out that never ends", on({ timeout: "Infinity" }), /timeout "Infinity" is no length of time/],
  ["a time-out of nothing", on({ timeout: 0 }), /timeout 0 is no length of time/],
  ["a concurrency that is no number", on({ concurrency: "4" }), /concurrency "4" is no whole number of 1 or more/],
  ["no attempts", on({ attempts: 0 }), /attempts 0 is no whole number/],
  [
    "an option that does not exist",
    on({ timeuot: "1 second" }),
    /timeuot is not known\. Did you mean "timeout"\? There are as, timeout/
  ],
  ["an option of updates for others", on({ changed: ["name"] }), /changed is not known/],
  [
    "an option inside another one",
    on({ retry: { frist: "1 second" } }),
    /retry\.frist is not known\. Did you mean "first"\?/
  ],
  ["a wait that is no length of time", on({ retry: { first: "soon" } }), /retry\.first "soon" is no length of time/],
  [
    "what follows a dead letter",
    on({ onDeadLetter: "skp" }),
    /onDeadLetter "skp" is not known\. Did you mean "skip"\?/
  ],
  ["an origin", on({ origins: ["polls"] }), /origins "polls" is not known\. Did you mean "poll"\?/],
  ["options that are no object", on("fast"), /what stands for the options is no object/],
  [
    "the options left out",
    make("p").on("ats.tag.created", nothing),
    /the options are missing before the handler\. Write \.on/
  ],
  ["a handler left out", on({}, null), /there is no handler\. Give a function/],
  ["Plugin.async around nothing", on({}, (Plugin.async as any)(null)), /there is no handler/],
  ["a generator function", on({}, function*() {}), /is a generator function\. Write Effect\.fnUntraced/],
  [
    "a trigger that does not exist",
    make("p").on("ats.application.hird", {}, nothing),
    /the trigger "ats\.application\.hird" does not exist\. Did you mean "ats\.application\.hired"\? Of ats\.application there are created/
  ],
  [
    "a model that does not exist",
    make("p").on("ats.aplication.hired", {}, nothing),
    /Did you mean "ats\.application\.hired"\? The models are/
  ],
  [
    "a trigger that is no text",
    make("p").on(undefined, {}, nothing),
    /the trigger a value of type undefined does not exist/
  ],
  [
    "a property that the records do not have",
    make("p").on("ats.application.updated", { changed: ["outcom"] }, nothing),
    /changed "outcom" is not known\. Did you mean "outcome"\?/
  ],
  [
    "one trigger of several",
    make("p").onAny(["ats.tag.created", "ats.tag.create"], { as: "x" }, nothing),
    /"ats\.tag\.create" does not exist/
  ],
  ["no triggers", make("p").onAny([], { as: "x" }, nothing), /has no triggers/],
  ["several triggers without a name", make("p").onAny(["ats.tag.created"], {}, nothing), /as is missing/],
  [
    "a batch of none",
    make("p").batch("ats.tag.created", { size: 0, within: "1 second" }, nothing),
    /size 0 is no whole number/
  ],
  ["a batch without a time", make("p").batch("ats.tag.created", { size: 5 }, nothing), /within is missing/],
  ["an interval", make("p").every("dayly", { as: "x" }, nothing), /its interval "dayly" is no length of time/],
  ["origins of ticks", make("p").every("1 day", { as: "x", origins: [] }, nothing), /origins is not known/],
  [
    "a write",
    make("p", { needs: { writes: ["addTags"] } }),
    /needs\.writes "addTags" is not known\. Did you mean "addTag"\?/
  ],
  ["a read", make("p", { needs: { reads: "tools" } }), /needs\.reads is no list/],
  [
    "what is needed",
    make("p", { needs: { write: ["addTag"] } }),
    /needs\.write is not known\. Did you mean "writes"\?/
  ],
  ["the budget", make("p", { writesPerHour: "many" }), /writesPerHour "many" is no whole number/],
  ["the definition", make("p", { conifg: {} }), /conifg is not known\. Did you mean "config"\?/],
  ["a configuration that is none", make("p", { config: { URL: "string" } }), /config is no Config of Effect/],
  ["the name", make("No Name"), /"No Name" is no name of a plugin\. Use lower-case letters/],
  [
    "two handlers of one name",
    on({}).on("ats.tag.created", {}, nothing),
    /has two handlers named "ats\.tag\.created"\. Give one another name/
  ],
  ["where it begins", on({}).with({ from: "oldes" }), /from "oldes" is not known\. Did you mean "oldest"\?/],
  ["how it is used", on({}).with({ value: {} }), /value is not known\. Did you mean "values"\?/],
  [
    "where it is used",
    on({}).with({ integrations: { "a:b": "off" } }),
    /integrations of "a:b" is neither true, false nor values/
  ]
]

describe("a plugin with faults", () => {
  it.each(cases)("names %s, once   (L23)", (_, plugin, fault) => {
    const [found, ...others] = faultsOf(plugin)
    assert.match(found ?? "nothing", fault)
    assert.deepStrictEqual(others, [])
  })

  it("names all of them, with plugin and handler   (L23)", () => {
    const plugin = make("hasty", { needs: { writes: ["addTags"] } })
      .on("ats.tag.create", { timeout: "1 minit", attempts: -1 }, undefined)
      .every("1 day", { as: "digest", echo: "deliver" }, nothing)
    assert.deepStrictEqual(plugin.issues.map(({ message }: Plugin.PluginIssue) => message), [
      `plugin "hasty": needs.writes "addTags" is not known`,
      `plugin "hasty", handler "ats.tag.create": the trigger "ats.tag.create" does not exist`,
      `plugin "hasty", handler "ats.tag.create": timeout "1 minit" is no length of time`,
      `plugin "hasty", handler "ats.tag.create": attempts -1 is no whole number of 1 or more`,
      `plugin "hasty", handler "ats.tag.create": there is no handler`,
      `plugin "hasty", handler "digest": echo is not known`
    ])
  })

  it("is refused by the test kit, which names all of them   (L23)", () => {
    assert.throws(() => Testing.make(on({ timeout: "1 minit", attempts: 0 })), /1 minit[\s\S]*attempts 0/)
  })

  it("is none of those that are written as the guide says", () => {
    const all = Plugin.make("all", {
      config: Config.all({ a: Config.String("A") }),
      needs: { writes: ["addTag"], reads: ["tools"] },
      writesPerHour: 5
    })
      .on("ats.application.updated", {
        changed: ["outcome"],
        timeout: 5_000,
        concurrency: 1,
        attempts: 1,
        onDeadLetter: "skip"
      }, nothing)
      .on("ats.candidate.updated", { changed: ["tags"], origins: ["backfill"], echo: "deliver" }, nothing)
      .on("assessment.package.updated", { changed: ["id"], retry: { first: "1 second", longest: "1 hour" } }, nothing)
      .with({
        from: "oldest",
        others: false,
        integrations: { "a:b": { values: { A: "x" } }, "c:d": false },
        values: {}
      })
    assert.deepStrictEqual(all.issues, [])
  })
})

describe("a handler in plain JavaScript", () => {
  const tag = Testing.event("ats.tag.created", {})

  it("is an async function as it is, with the capabilities and the configuration", async () => {
    const plugin = make("plain", { config: Config.all({ name: Config.String("NAME") }) })
      .on("ats.tag.created", {}, async (event: any, { api }: any, { name }: any) => {
        await api.addTag(event.recordId, { tag: { name } })
      })
      .with({ values: { NAME: "x" } })
    const run = await Testing.make(plugin).deliver(tag)
    assert.deepStrictEqual(run.writes.map(({ body }) => body), [{ tag: { name: "x" } }])
  })

  it("that gives neither a promise of an async function nor an Effect is a defect that says so", async () => {
    const failureOf = async (handle: () => unknown) => {
      const { failure } = await Testing.make(on({ attempts: 1 }, handle)).deliver(tag)
      return failure?._tag === "Defect" ? failure.message : ""
    }
    assert.match(await failureOf(() => undefined), /neither an Effect nor a promise/)
    assert.match(await failureOf(() => Promise.reject(new Error("x"))), /not written as an async function: put `async`/)
  })
})
