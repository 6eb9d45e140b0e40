/** Plugins in plain JavaScript: validation finds the mistakes that the compiler finds in TypeScript. */
import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Testing from "../testing/Testing.ts"
import * as Plugin from "./Plugin.ts"

/** Without types, as in plain JavaScript. */
const make: any = Plugin.make
const nothing = () => Effect.void
const on = (options: unknown, handle: unknown = nothing) => make("p").on("ats.tag.created", options, handle)

const faultsOf = ({ issues }: Plugin.Plugin<unknown>) => issues.map(({ hint, message }) => `${message}. ${hint}`)

const cases: ReadonlyArray<readonly [what: string, plugin: Plugin.Plugin<unknown>, fault: RegExp]> = [
  [
    "a timeout that is not a duration",
    on({ timeout: "1 minit" }),
    /timeout "1 minit" is not a duration\. .*"30 seconds"/
  ],
  ["an infinite timeout", on({ timeout: "Infinity" }), /timeout "Infinity" is not a duration/],
  ["a timeout of zero", on({ timeout: 0 }), /timeout 0 is not a duration/],
  [
    "a concurrency that is not a number",
    on({ concurrency: "4" }),
    /concurrency "4" is not a whole number of 1 or more/
  ],
  ["zero attempts", on({ attempts: 0 }), /attempts 0 is not a whole number/],
  [
    "an option that does not exist",
    on({ timeuot: "1 second" }),
    /timeuot is not known\. Did you mean "timeout"\? Use one of as, timeout/
  ],
  ["an option for updates on another trigger", on({ changed: ["name"] }), /changed is not known/],
  [
    "an unknown option inside another one",
    on({ retry: { frist: "1 second" } }),
    /retry\.frist is not known\. Did you mean "first"\?/
  ],
  ["a retry wait that is not a duration", on({ retry: { first: "soon" } }), /retry\.first "soon" is not a duration/],
  [
    "an unknown value of onDeadLetter",
    on({ onDeadLetter: "skp" }),
    /onDeadLetter "skp" is not known\. Did you mean "skip"\?/
  ],
  [
    "an empty list of origins",
    on({ origins: [] }),
    /origins is empty, so the handler would never run\. Leave it out, or list at least one value/
  ],
  [
    "an empty list of properties",
    make("p").on("ats.tag.updated", { changed: [] }, nothing),
    /changed is empty, so the handler would never run/
  ],
  [
    "properties that never count as changed",
    make("p").on("ats.application.updated", { changed: ["changed_at", "outcome"] }, nothing),
    /changed "changed_at" never counts as a change\. Leave it out/
  ],
  [
    "properties for several triggers of which none is an update",
    make("p").onAny(["ats.tag.created", "ats.tag.deleted"], { as: "x", changed: ["name"] }, nothing),
    /handler "x": changed is not known/
  ],
  [
    "a property that only a trigger without updates has",
    make("p").onAny(["ats.tag.updated", "hris.skill.created"], { as: "x", changed: ["proficiency_scale"] }, nothing),
    /changed "proficiency_scale" is not known/
  ],
  [
    "transitions that only a backfill could find",
    make("p").on("ats.application.hired", { origins: ["backfill"] }, nothing),
    /origins contains only "backfill", which has no transitions, so the handler would never run\. Use the trigger <model>\.created/
  ],
  ["an unknown origin", on({ origins: ["polls"] }), /origins "polls" is not known\. Did you mean "poll"\?/],
  ["options that are not an object", on("fast"), /the options must be an object/],
  [
    "missing options",
    make("p").on("ats.tag.created", nothing),
    /the options are missing before the handler\. Write \.on/
  ],
  ["a missing handler", on({}, null), /the handler is missing\. Pass a function/],
  ["a generator function", on({}, function*() {}), /is a generator function\. Write Effect\.fnUntraced/],
  [
    "a trigger that does not exist",
    make("p").on("ats.application.hird", {}, nothing),
    /"ats\.application\.hird" is not a trigger\. Did you mean "ats\.application\.hired"\? The triggers of ats\.application are created/
  ],
  [
    "a model that does not exist",
    make("p").on("ats.aplication.hired", {}, nothing),
    /Did you mean "ats\.application\.hired"\? The models are/
  ],
  [
    "a trigger that is not a string",
    make("p").on(undefined, {}, nothing),
    /a value of type undefined is not a trigger/
  ],
  [
    "a property that the records do not have",
    make("p").on("ats.application.updated", { changed: ["outcom"] }, nothing),
    /changed "outcom" is not known\. Did you mean "outcome"\?/
  ],
  [
    "a property that assessment packages do not have",
    make("p").on("assessment.package.updated", { changed: ["nmae"] }, nothing),
    /changed "nmae" is not known\. Did you mean "name"\?/
  ],
  [
    "an unknown trigger among several",
    make("p").onAny(["ats.tag.created", "ats.tag.create"], { as: "x" }, nothing),
    /"ats\.tag\.create" is not a trigger/
  ],
  ["an empty list of triggers", make("p").onAny([], { as: "x" }, nothing), /has no triggers/],
  ["several triggers without a name", make("p").onAny(["ats.tag.created"], {}, nothing), /as is missing/],
  [
    "a batch of size zero",
    make("p").batch("ats.tag.created", { size: 0, within: "1 second" }, nothing),
    /size 0 is not a whole number/
  ],
  ["a batch without a time", make("p").batch("ats.tag.created", { size: 5 }, nothing), /within is missing/],
  [
    "an interval that is not a duration",
    make("p").every("dayly", { as: "x" }, nothing),
    /the interval "dayly" is not a duration/
  ],
  ["the option origins for ticks", make("p").every("1 day", { as: "x", origins: [] }, nothing), /origins is not known/],
  [
    "an unknown write",
    make("p", { needs: { writes: ["addTags"] } }),
    /needs\.writes "addTags" is not known\. Did you mean "addTag"\?/
  ],
  ["reads that are not a list", make("p", { needs: { reads: "tools" } }), /needs\.reads is not a list/],
  [
    "an unknown property of needs",
    make("p", { needs: { write: ["addTag"] } }),
    /needs\.write is not known\. Did you mean "writes"\?/
  ],
  [
    "a write budget that is not a number",
    make("p", { writesPerHour: "many" }),
    /writesPerHour "many" is not a whole number/
  ],
  ["an unknown property of the definition", make("p", { conifg: {} }), /conifg is not known\. Did you mean "config"\?/],
  ["a configuration that is not a Config", make("p", { config: { URL: "string" } }), /config is not an Effect Config/],
  ["an invalid plugin name", make("No Name"), /"No Name" is not a plugin name\. Use lower-case letters/],
  [
    "two handlers with the same name",
    on({}).on("ats.tag.created", {}, nothing),
    /has two handlers named "ats\.tag\.created"\. Give one of them a different name/
  ],
  ["an unknown value of from", on({}).with({ from: "oldes" }), /from "oldes" is not known\. Did you mean "oldest"\?/],
  ["an unknown setting", on({}).with({ value: {} }), /value is not known\. Did you mean "values"\?/],
  [
    "an invalid value for an integration",
    on({}).with({ integrations: { "a:b": "off" } }),
    /integrations has an invalid value for "a:b"/
  ],
  [
    "null for an integration that a later call sets",
    on({}).with({ integrations: { "a:b": null } }).with({ integrations: { "a:b": true } }),
    /integrations has an invalid value for "a:b"/
  ]
]

describe("the issues of a plugin", () => {
  it.each(cases)("name %s once (L23)", (_, plugin, fault) => {
    const [found, ...others] = faultsOf(plugin)
    assert.match(found ?? "nothing", fault)
    assert.deepStrictEqual(others, [])
  })

  it("name every mistake with its plugin and handler (L23)", () => {
    const plugin = make("hasty", { needs: { writes: ["addTags"] } })
      .on("ats.tag.create", { timeout: "1 minit", attempts: -1 }, undefined)
      .every("1 day", { as: "digest", echo: "deliver" }, nothing)
    assert.deepStrictEqual(plugin.issues.map(({ message }: Plugin.PluginIssue) => message), [
      `plugin "hasty": needs.writes "addTags" is not known`,
      `plugin "hasty", handler "ats.tag.create": "ats.tag.create" is not a trigger`,
      `plugin "hasty", handler "ats.tag.create": timeout "1 minit" is not a duration`,
      `plugin "hasty", handler "ats.tag.create": attempts -1 is not a whole number of 1 or more`,
      `plugin "hasty", handler "ats.tag.create": the handler is missing`,
      `plugin "hasty", handler "digest": echo is not known`
    ])
  })

  it("are all named by the test kit, which rejects the plugin (L23)", () => {
    assert.throws(() => Testing.make(on({ timeout: "1 minit", attempts: 0 })), /1 minit[\s\S]*attempts 0/)
  })

  it("are empty for a plugin that is written as in the guide", () => {
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
      .on("assessment.package.updated", { changed: ["name"], retry: { first: "1 second", longest: "1 hour" } }, nothing)
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

  it("is an async function that receives the capabilities and the configuration", async () => {
    const plugin = make("plain", { config: Config.all({ name: Config.String("NAME") }), needs: { writes: ["addTag"] } })
      .on("ats.tag.created", {}, async (event: any, { api, config: { name } }: any) => {
        await api.addTag(event.recordId, { tag: { name } })
      })
      .with({ values: { NAME: "x" } })
    const run = await Testing.make(plugin).deliver(tag)
    assert.deepStrictEqual(run.writes.map(({ body }) => body), [{ tag: { name: "x" } }])
  })

  it("fails with a defect if it is declared async and returns an Effect, which does not run", async () => {
    const testing = Testing.make(on({ attempts: 1 }, async () => Effect.die("ran")))
    assert.match(
      (await testing.deliver(tag)).failure?.message ?? "",
      /the async handler returned an Effect, which does not run/
    )
  })

  it("fails with a defect if it returns neither an Effect nor a promise", async () => {
    const { failure } = await Testing.make(on({ attempts: 1 }, () => undefined)).deliver(tag)
    assert.match(failure?._tag === "Defect" ? failure.message : "", /neither an Effect nor a promise/)
  })
})
