/** The commands for plugins and dead letters, with the real delivery engine, as an operator on call uses them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type AddressInfo, createServer } from "node:net"
import { sizeOf } from "../../../src/domain/DeliveryProgress.ts"
import * as Server from "../../../src/http/Server.ts"
import { runCommand } from "../cli/Program.ts"
import { delivered, died, picky } from "./Picky.ts"
import * as Running from "./Running.ts"

const { post, rollcall, served, stream, using, write } = Running

describe("rollcall plugins replay", () => {
  const replay = ["plugins", "replay", "picky", "ats.tag.created"]
  const rollcall = (url: string, ...args: ReadonlyArray<string>) =>
    Effect.promise(() => runCommand([...replay, ...args], { ROLLCALL_HTTP_PORT: new URL(url).port }))

  it.live("--wait returns when all deliveries are done, with exit code 1 if one failed", () => {
    const broken = { is: false }
    return Effect.gen(function*() {
      yield* stream({ phase: "live" })
      for (const id of ["a", "bad"]) yield* write(id, "{}")
      yield* delivered
      const { url } = yield* Server.Server
      const good = yield* rollcall(url, "--wait", "--json")
      const { progress, ranges } = JSON.parse(good.stdout)
      assert.deepStrictEqual([good.code, progress, sizeOf(ranges)], [0, { done: 2, open: 0, dead: 0 }, 2])
      broken.is = true
      const failing = yield* rollcall(url, "--wait")
      assert.strictEqual(failing.code, 1)
      assert.match(failing.stdout, /^2 deliveries made for picky\/ats.tag.created, .*: 1 done, 1 failed\n$/)
      assert.match(failing.stderr, /1 delivery failed\n.*rollcall deadletters list/)
      yield* post("/v1/plugins/picky/off")
      const late = yield* rollcall(url, "--wait", "--timeout", "1 second")
      assert.strictEqual(late.code, 1)
      assert.match(late.stderr, /the replay of 2 deliveries was not done within 1s\n.*It continues/)
      for (const flags of [["--timeout", "1 second"], ["--wait", "--dry-run"]]) {
        const refused = yield* rollcall(url, ...flags)
        assert.deepStrictEqual([refused.code, /has no effect/.test(refused.stderr)], [1, true])
      }
    }).pipe(using({ plugins: [picky([], broken)] }))
  })

  it.live("says that some deliveries may have been made if the connection ends before the answer", () =>
    Effect.gen(function*() {
      const server = createServer((socket) => socket.once("data", () => socket.destroy()))
      yield* Effect.acquireRelease(
        Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
        () => Effect.sync(() => server.close())
      )
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const plain = yield* rollcall(url, "--wait")
      assert.strictEqual(plain.code, 1)
      assert.match(
        plain.stderr,
        /the connection to the process at .* ended .*; some of the deliveries may have been made/
      )
      assert.include(plain.stderr, "Run the command again")
      const fresh = yield* rollcall(url, "--fresh", "--yes")
      assert.match(fresh.stderr, /`rollcall plugins show picky` shows what waits/)
    }).pipe(Effect.scoped))
})

describe("rollcall plugins, rollcall deadletters", () => {
  served(
    "show, switch, plan, redrive and discard; exit code 1 for a failure, 2 for wrong usage",
    function*() {
      const [first, second] = yield* died
      const list = yield* rollcall("plugins", "list")
      assert.match(list.stdout, /^picky +ats.tag.created +on +0 +0 +0 +0 +2 +–$/m)
      assert.match(
        (yield* rollcall("plugins", "off", "picky", "--integration", "greenhouse:acme")).stdout,
        /off +by an op/
      )
      assert.match((yield* rollcall("plugins", "show", "picky")).stdout, /^greenhouse:acme +off +by an operator$/m)
      assert.match((yield* rollcall("plugins", "on", "picky", "--integration", "greenhouse:acme")).stdout, /^picky/m)
      assert.strictEqual(
        (yield* rollcall("plugins", "stop-writes")).stdout,
        "the writes of all plugins are stopped\n"
      )
      assert.match(
        (yield* rollcall("status")).stdout,
        /stopped the writes of all plugins: .*\n +`rollcall plugins resume-writes`$/m
      )
      assert.strictEqual(
        (yield* rollcall("plugins", "resume-writes")).stdout,
        "the writes of all plugins are resumed\n"
      )
      const unknown = yield* rollcall("plugins", "show", "pickle")
      assert.deepStrictEqual([unknown.code, unknown.stderr.includes("the plugins are picky")], [1, true])
      const dry = yield* rollcall("plugins", "replay", "picky", "ats.tag.created", "--dry-run")
      assert.match(dry.stdout, /ats.tag\/bad1 in greenhouse:acme.*\n +would fail: Permanent: the receiver refuses it/)
      assert.match(dry.stdout, /dry run, nothing was written: .* 3 of 3 deliveries tried, 0 writes, 2 failures/)
      assert.strictEqual((yield* rollcall("plugins", "replay", "picky")).code, 2)
      const fresh = yield* rollcall("plugins", "replay", "picky", "ats.tag.created", "--fresh")
      assert.deepStrictEqual([fresh.code, fresh.stdout], [1, ""])
      assert.match(fresh.stderr, /nothing was changed\n.*--dry-run.*--yes/)

      assert.match((yield* rollcall("deadletters", "list")).stdout, /bad1 v1 .* Permanent: the receiver refuses it/)
      assert.match((yield* rollcall("deadletters", "show", String(first))).stdout, /attempt 1, .*: Permanent/)
      const plan = yield* rollcall("deadletters", "plan", "--plugin", "picky", "--json")
      assert.strictEqual(JSON.parse(plan.stdout).count, 2)
      for (const act of ["plan", "redrive", "discard"]) {
        const unknown = yield* rollcall("deadletters", act, "--id", "77", ...(act === "plan" ? [] : ["--yes"]))
        assert.deepStrictEqual([unknown.code, unknown.stdout], [1, ""])
        assert.include(unknown.stderr, "no dead letter matches 77")
      }
      const unsure = yield* rollcall("deadletters", "discard", "--id", String(first))
      assert.deepStrictEqual(
        [unsure.code, /Pass --plan [0-9a-f]+ to confirm exactly this plan/.test(unsure.stderr)],
        [1, true]
      )
      const stale = yield* rollcall("deadletters", "redrive", "--plan", JSON.parse(plan.stdout).plan)
      assert.strictEqual(stale.stdout, "2 dead letters due again now\n")
      assert.match(
        (yield* rollcall("deadletters", "discard", "--id", String(second), "--yes")).stdout,
        /^1 dead letter discarded/m
      )
      const gone = yield* rollcall("deadletters", "redrive", "--plan", JSON.parse(plan.stdout).plan)
      assert.deepStrictEqual([gone.code, gone.stderr.includes("the plan is outdated")], [1, true])
      assert.strictEqual((yield* rollcall("deadletters", "show", "all")).code, 2)
      assert.strictEqual((yield* rollcall("deadletters", "list", "--reason", "Bad")).code, 2)
    },
    { plugins: [picky()] }
  )
})
