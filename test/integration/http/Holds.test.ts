/** Holds over HTTP and on the command line, as an operator on call uses them. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Store } from "../../../src/store/Store.ts"
import { pendingOf } from "../../conformance/StoreSamples.ts"
import * as Running from "./Running.ts"

const { ask, key, post, rollcall, served, stream, write } = Running

/** Approves the records that a hold has now. */
const approve = Effect.fnUntraced(function*(id: number, query = "") {
  const { body } = yield* ask(`/v1/holds/${id}/plan`)
  return yield* post(`/v1/holds/${id}/approve?plan=${body.plan}${query}`)
})

/** Puts a further record into a hold. */
const add = Effect.fnUntraced(function*(hold: number, id: string) {
  const store = yield* Store
  const owner = yield* store.takeOwnership("capture")
  const row = pendingOf(id, { status: "held", hold, deleted: true, reason: "flagged" })
  yield* store.transact(owner, key, (tx) => tx.putPending([row]))
})

/** A live stream with an open hold of three deletes and an open hold of a switched-off field. */
const held = Effect.gen(function*() {
  yield* stream({ phase: "live" })
  const store = yield* Store
  const owner = yield* store.takeOwnership("capture")
  return yield* store.transact(owner, key, (tx) =>
    Effect.gen(function*() {
      const opening = {
        state: "open",
        openedAt: 0,
        decidedAt: null,
        released: 0,
        release: null,
        published: null
      } as const
      const deletes = yield* tx.openHold({ ...opening, kind: "deletes", reason: "all 3 records deleted", paths: [] })
      const scope = yield* tx.openHold({
        ...opening,
        kind: "scope",
        reason: "1 of 3 records lose name",
        paths: ["/name"]
      })
      const rows = (hold: number, ...ids: ReadonlyArray<string>) =>
        ids.map((id) =>
          pendingOf(id, { status: "held", hold, deleted: true, reason: "flagged", content: `{"name":"s3cret"}` })
        )
      yield* tx.putPending([...rows(deletes.id, "a", "b", "c"), ...rows(scope.id, "d")])
      return { deletes: deletes.id, scope: scope.id }
    }))
})

describe("GET /v1/holds", () => {
  served("lists the holds that wait for a decision, with records by id only (I11)", function*() {
    const { deletes, scope } = yield* held
    const { body, text } = yield* ask("/v1/holds")
    assert.deepStrictEqual(body.items.map((hold: { id: number }) => hold.id), [scope, deletes])
    assert.deepStrictEqual(body.items[1], {
      id: deletes,
      stream: "greenhouse:acme/ats.tag",
      integration: "greenhouse:acme",
      model: "ats.tag",
      kind: "deletes",
      state: "open",
      reason: "all 3 records deleted",
      paths: [],
      opened_at: "1970-01-01T00:00:00.000Z",
      decided_at: null,
      records: 3,
      released: 0,
      published: false,
      waiting_reason: null,
      sweep_at: null
    })
    assert.isNull(body.next)
    const first = (yield* ask("/v1/holds?limit=1")).body
    assert.deepStrictEqual([first.items[0].id, first.next], [scope, String(scope)])
    assert.strictEqual((yield* ask(`/v1/holds?limit=1&after=${first.next}`)).body.items[0].id, deletes)

    const page = (yield* ask(`/v1/holds/${deletes}?limit=2`)).body
    assert.deepStrictEqual(page.records.map((record: { id: string }) => record.id), ["a", "b"])
    const rest = yield* ask(`/v1/holds/${deletes}?after=${page.next}`)
    assert.deepStrictEqual(rest.body.records.map((record: { id: string }) => record.id), ["c"])
    assert.notInclude(text + rest.text, "s3cret")
    assert.strictEqual((yield* ask("/v1/holds/77")).status, 404)
    assert.strictEqual((yield* ask("/v1/holds/seven")).status, 400)
    // PostgreSQL refuses such an id, which would be answered "the store is unavailable"
    assert.strictEqual((yield* ask("/v1/holds?after=1.5")).status, 400)
  })

  served("the overview and the metrics show open holds, and readiness ignores them", function*() {
    const { deletes } = yield* held
    const { matters } = (yield* ask("/v1/overview")).body
    const ofDeletes = matters.find(({ id }: { id: string }) => id === `hold/${deletes}`)
    assert.deepInclude(ofDeletes, {
      title: "3 changes of ats.tag held back: deletes",
      integrations: ["greenhouse:acme"],
      link: `/holds/${deletes}`
    })
    const metrics = (yield* ask("/metrics")).text
    assert.match(metrics, /^rollcall_holds_open\{.*\} 2$/m)
    assert.match(metrics, /^rollcall_pending_changes\{.*reason="held".*\} 4$/m)
    assert.strictEqual((yield* ask("/health/ready")).status, 200)
    yield* post(`/v1/holds/${deletes}/reject`)
    assert.match((yield* ask("/metrics")).text, /^rollcall_holds_open\{.*\} 1$/m)
  })
})

describe("the effects of an approval", () => {
  /** Two records of the scope hold that lose their name; one of them also has a link. */
  const compared = Effect.gen(function*() {
    const { deletes, scope } = yield* held
    const store = yield* Store
    yield* write("d", '{"name":"Ada s3cret","remote_url":"https://vendor.example/d","color":"red"}')
    yield* write("e", '{"name":"Bob s3cret","remote_url":"javascript:alert(1)","color":"red"}')
    const owner = yield* store.takeOwnership("capture")
    const row = (id: string) =>
      pendingOf(id, {
        status: "held",
        hold: scope,
        remoteId: `r-${id}`,
        content: '{"name":null,"remote_url":"https://vendor.example/d","color":"blue s3cret"}'
      })
    yield* store.transact(owner, key, (tx) => tx.putPending([row("d"), row("e")]))
    return { deletes, scope }
  })

  served("is shown by path and counted by pattern, without a value (I11)", function*() {
    const { deletes, scope } = yield* compared
    const page = yield* ask(`/v1/holds/${scope}`)
    assert.deepInclude(page.body.records[0], {
      id: "d",
      remote_id: "r-d",
      paths: ["/color", "/name"],
      lost: ["/name"],
      gained: []
    })
    const patterns = yield* ask(`/v1/holds/${scope}/patterns`)
    assert.deepStrictEqual(patterns.body, { counted: 2, patterns: [{ what: "lose name", records: 2 }] })
    assert.deepStrictEqual((yield* ask(`/v1/holds/${deletes}/patterns`)).body, {
      counted: 3,
      patterns: [{ what: "would be deleted: the API marks them as deleted", records: 3 }]
    })
    assert.notInclude(page.text + patterns.text, "s3cret")
    const shown = yield* rollcall("holds", "show", String(scope))
    assert.match(shown.stdout, /2 of 2 lose name/)
    assert.match(shown.stdout, /^d +r-d +\/color, \/name/m)
    assert.strictEqual((yield* ask("/v1/holds/77/patterns")).status, 404)
  })

  served("is revealed with name, values and an https link only, after an entry of the audit log", function*() {
    const { scope } = yield* compared
    const { body } = yield* ask(`/v1/holds/${scope}/content?limit=2`)
    assert.deepStrictEqual(body.items[0], {
      id: "d",
      name: "Ada s3cret",
      remote_url: "https://vendor.example/d",
      changes: [
        { path: "/color", before: "red", after: "blue s3cret" },
        { path: "/name", before: "Ada s3cret", after: null }
      ]
    })
    assert.deepInclude(body.items[1], { name: "Bob s3cret", remote_url: null })
    assert.strictEqual(body.next, "e")
    const [entry] = (yield* ask("/v1/audit")).body.items
    assert.deepInclude(entry, { command: "holds.reveal", target: String(scope), detail: "greenhouse:acme/ats.tag" })
  })
})

describe("GET /v1/changes?hold=…", () => {
  served("lists exactly the events that an approval has published, in pages", function*() {
    yield* stream({ phase: "live" })
    yield* stream({ phase: "live" }, { integration: "lever:acme", model: "ats.tag" })
    for (const id of ["a", "b", "c"]) yield* write(id, "{}")
    yield* write("a", null)
    yield* write("other", "{}", { integration: "lever:acme" })
    yield* write("b", null)
    yield* write("c", null)
    const store = yield* Store
    const owner = yield* store.takeOwnership("capture")
    const [hold, silent] = yield* store.transact(owner, key, (tx) =>
      Effect.gen(function*() {
        const approved = { kind: "deletes", state: "approved", reason: "all 3 records deleted", paths: [] } as const
        const over = { openedAt: 0, decidedAt: 1, released: 2, release: { origin: null, silent: false } } as const
        return [
          yield* tx.openHold({ ...approved, ...over, published: { first: 4, last: 6 } }),
          yield* tx.openHold({ ...approved, ...over, published: null })
        ]
      }))
    const of = (query: string) => Effect.map(ask(`/v1/changes?hold=${query}`), ({ body }) => body)
    const found = yield* of(`${hold?.id}`)
    assert.deepStrictEqual(found.items.map((one: { record: string }) => one.record), ["b", "a"])
    assert.isNull(found.next)
    const first = yield* of(`${hold?.id}&limit=1`)
    assert.deepStrictEqual(first.items.map((one: { record: string }) => one.record), ["b"])
    const rest = yield* of(`${hold?.id}&limit=1&before=${first.next}`)
    assert.deepStrictEqual(rest.items.map((one: { record: string }) => one.record), ["a"])
    assert.deepStrictEqual(yield* of(`${silent?.id}`), { items: [], next: null })
    assert.strictEqual((yield* ask("/v1/changes?hold=77")).status, 404)
    assert.isTrue((yield* ask(`/v1/holds/${hold?.id}`)).body.hold.published)
  })
})

describe("deciding", () => {
  served("says afterwards when, and who", function*() {
    const { deletes } = yield* held
    assert.isNull((yield* ask(`/v1/holds/${deletes}`)).body.decision)
    yield* post(`/v1/holds/${deletes}/reject`)
    const { decision } = (yield* ask(`/v1/holds/${deletes}`)).body
    assert.deepInclude(decision, { actor: "no token", address: "127.0.0.1" })
  })

  served("an approval and a rejection are each accepted once; an impossible decision is a conflict", function*() {
    const { deletes, scope } = yield* held
    const store = yield* Store
    assert.strictEqual((yield* approve(deletes, "&silent=true")).status, 409)
    const rejected = yield* post(`/v1/holds/${deletes}/reject`)
    assert.deepStrictEqual([rejected.status, rejected.body.state], [200, "rejected"])
    const twice = yield* post(`/v1/holds/${deletes}/reject`)
    assert.strictEqual(twice.status, 409)
    assert.include(twice.body.hint, "until it is approved")
    const approved = yield* approve(scope, "&silent=true&origin=backfill")
    assert.deepStrictEqual([approved.status, approved.body.state], [200, "approving"])
    assert.deepStrictEqual((yield* store.hold(scope))?.release, { origin: "backfill", silent: true })
    const again = yield* post(`/v1/holds/${scope}/approve?plan=0`)
    assert.deepStrictEqual([again.status, again.body.detail], [409, `hold ${scope} is already approving`])
    assert.strictEqual((yield* post("/v1/holds/77/approve?plan=0")).status, 404)
    assert.strictEqual((yield* approve(deletes, "&origin=poll")).status, 400)
  })

  served(
    "an approved hold of a stream that is not read is stored and shows why it waits (D6)",
    function*() {
      const { deletes, scope } = yield* held
      yield* stream({ retired: true })
      const waits =
        "greenhouse:acme/ats.tag is no longer read; its changes are released once it is configured or added again"
      const { body, status } = yield* approve(deletes)
      assert.deepStrictEqual([status, body.state], [200, "approving"])
      assert.include(body.waiting_reason, waits)
      assert.include((yield* ask(`/v1/holds/${deletes}`)).body.hold.waiting_reason, waits)
      assert.deepStrictEqual(
        (yield* ask("/v1/holds")).body.items.map((hold: { waiting_reason: string | null }) =>
          hold.waiting_reason !== null
        ),
        [false, true]
      )
      const holds = (...args: ReadonlyArray<string>) => rollcall("holds", ...args)
      assert.include((yield* holds("list")).stdout, waits)
      assert.include(
        (yield* holds("approve", String(scope), "--yes")).stdout,
        `is approved and will be released later: ${waits}`
      )
      yield* stream({ retired: false })
      assert.isNull((yield* ask(`/v1/holds/${deletes}`)).body.hold.waiting_reason)
    }
  )

  served(
    "an approval requires a plan, and is a conflict with the new number of records once they have changed",
    function*() {
      const { deletes } = yield* held
      const without = yield* post(`/v1/holds/${deletes}/approve`)
      assert.deepStrictEqual([without.status, without.body.errors[0].path], [400, ["query", "plan"]])
      const planned = yield* ask(`/v1/holds/${deletes}/plan`)
      assert.deepStrictEqual([planned.body.hold.id, planned.body.hold.records], [deletes, 3])
      yield* add(deletes, "e")
      const outdated = yield* post(`/v1/holds/${deletes}/approve?plan=${planned.body.plan}`)
      assert.deepStrictEqual(
        [outdated.status, outdated.body.detail],
        [
          409,
          `the plan is outdated: the records of hold ${deletes} or their content have changed (it has 4 records now)`
        ]
      )
      assert.include(outdated.body.hint, "plan again")
      assert.strictEqual((yield* ask(`/v1/holds/${deletes}`)).body.hold.state, "open")
      assert.strictEqual((yield* approve(deletes)).status, 200)
      const after = yield* ask(`/v1/holds/${deletes}/plan`)
      assert.deepStrictEqual([after.status, after.body.detail], [409, `hold ${deletes} is already approving`])
      assert.strictEqual((yield* ask("/v1/holds/77/plan")).status, 404)
    }
  )
})

describe("rollcall holds", () => {
  served(
    "lists, shows and decides; exit code 1 for a failure, 2 for wrong usage",
    function*() {
      const { deletes, scope } = yield* held
      const holds = (...args: ReadonlyArray<string>) => rollcall("holds", ...args)
      const list = yield* holds("list")
      assert.strictEqual(list.code, 0)
      assert.match(
        list.stdout,
        new RegExp(`^${deletes} +greenhouse:acme/ats.tag +deletes +open +3 .*all 3 records`, "m")
      )
      const shown = yield* holds("show", String(deletes))
      assert.match(shown.stdout, /^a +– +flagged/m)
      const { held: records, kind } = JSON.parse((yield* holds("show", String(scope), "--json")).stdout)
      assert.deepStrictEqual([kind, records.length], ["scope", 1])
      const status = yield* rollcall("status")
      assert.match(status.stdout, /waiting for a decision:\n.*\n.*scope/)

      assert.match((yield* holds("reject", String(deletes))).stdout, /is rejected: 3 records stay unpublished/)
      const after = yield* holds("approve", String(deletes), "--yes")
      assert.match(after.stdout, /is approved: 0 records are released, 3 follow/)
      const approved = yield* holds("approve", String(scope), "--silent", "--json", "--yes")
      assert.strictEqual(JSON.parse(approved.stdout).state, "approving")
      const twice = yield* holds("approve", String(scope))
      assert.deepStrictEqual([twice.code, twice.stderr.includes("is already approving")], [1, true])
      assert.strictEqual((yield* holds("show", "77")).code, 1)
      assert.strictEqual((yield* holds("show", "all")).code, 2)
      assert.strictEqual((yield* holds("decide")).code, 2)
    }
  )

  served(
    "approve shows its plan and publishes nothing until the plan is confirmed; --plan refuses other records",
    function*() {
      const { deletes } = yield* held
      const approve = (...args: ReadonlyArray<string>) => rollcall("holds", "approve", String(deletes), ...args)
      const state = Effect.map(ask(`/v1/holds/${deletes}`), ({ body }) => body.hold.state)
      const shown = yield* approve()
      assert.strictEqual(shown.code, 1)
      const [, plan = ""] = shown.stdout.match(/^plan ([0-9a-f]{16}): 3 records \(deletes\)$/m) ?? []
      assert.isNotEmpty(plan, shown.stdout)
      assert.match(shown.stderr, new RegExp(`not confirmed, so nothing was changed\n.*--plan ${plan}.*--yes`))
      const silently = yield* approve("--json")
      assert.deepStrictEqual([silently.code, silently.stdout], [1, ""])
      yield* add(deletes, "e")
      const outdated = yield* approve("--plan", plan)
      assert.strictEqual(outdated.code, 1)
      assert.include(outdated.stderr, "has 4 records now")
      assert.strictEqual(yield* state, "open")
      const [, next = ""] = (yield* approve()).stdout.match(/^plan (\w+): 4 records/m) ?? []
      assert.strictEqual((yield* approve("--plan", next)).code, 0)
      assert.strictEqual(yield* state, "approving")
    }
  )
})
