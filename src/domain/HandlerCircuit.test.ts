/** Which open circuits a plan names: those whose open time is not over. */
import { assert, describe, it } from "@effect/vitest"
import { openCircuitsOf } from "./HandlerCircuit.ts"

const at = (seconds: number) => new Date(Date.UTC(2026, 2, 1, 12, 0, seconds)).toISOString()
const now = Date.parse(at(0))

const plugins = [
  {
    plugin: "badges",
    handlers: [
      { handler: "closed", circuit_open: null },
      { handler: "open", circuit_open: { until: at(30) } },
      { handler: "over", circuit_open: { until: at(-1) } },
      { handler: "ends now", circuit_open: { until: at(0) } },
      { handler: "of a clock that was set back", circuit_open: { until: at(86_400) } }
    ]
  },
  { plugin: "audience", handlers: [{ handler: "open", circuit_open: { until: at(40) } }] }
]
const handlers = plugins.flatMap(({ handlers, plugin }) => handlers.map(({ handler }) => ({ plugin, handler })))

describe("the open circuits of handlers", () => {
  it("are those whose open time is not over", () => {
    assert.deepStrictEqual(openCircuitsOf(handlers, plugins, now), [
      { plugin: "badges", handler: "open", until: at(30) },
      { plugin: "audience", handler: "open", until: at(40) }
    ])
  })

  it("are only those of the named handlers", () => {
    const named = [{ plugin: "badges", handler: "open" }, { plugin: "badges", handler: "over" }]
    assert.deepStrictEqual(openCircuitsOf(named, plugins, now).map(({ plugin }) => plugin), ["badges"])
  })
})
