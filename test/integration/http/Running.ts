/**
 * The operating API over a store in memory, on a free port, with functions that fill the store and send requests.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type { Scope } from "effect/Scope"
import { once } from "node:events"
import { type IncomingMessage, request } from "node:http"
import type { IncrementalModel } from "../../../src/api/Lists.ts"
import * as Commands from "../../../src/capture/command/Commands.ts"
import * as Forgetting from "../../../src/capture/forget/Forgetting.ts"
import * as Capture from "../../../src/capture/schedule/Capture.ts"
import * as Integrations from "../../../src/capture/schedule/Integrations.ts"
import { initialState } from "../../../src/capture/StreamLifecycle.ts"
import * as Config from "../../../src/config/Config.ts"
import * as PluginAdmin from "../../../src/delivery/admin/PluginAdmin.ts"
import * as PluginAdminLayer from "../../../src/delivery/admin/PluginAdminLayer.ts"
import { DeliveryEngine } from "../../../src/delivery/engine/DeliveryEngine.ts"
import { builtInModels } from "../../../src/domain/BuiltInModels.ts"
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import { Calls } from "../../../src/fleet/Calls.ts"
import { Placement } from "../../../src/fleet/Placement.ts"
import type { Dependency } from "../../../src/http/health/HealthHandlers.ts"
import * as Server from "../../../src/http/Server.ts"
import type { Plugin } from "../../../src/plugin/Plugin.ts"
import { Source } from "../../../src/source/Source.ts"
import type { CallQueue } from "../../../src/store/CallQueue.ts"
import type { Head, RecordWrite } from "../../../src/store/Records.ts"
import type { StreamState } from "../../../src/store/State.ts"
import { Store } from "../../../src/store/Store.ts"
import { headsOf, integrationOf } from "../../conformance/StoreSamples.ts"
import * as Scripted from "../../support/capture/ScriptedApi.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import { runCommand } from "../cli/Program.ts"

const minute = Duration.minutes(1)

/** Tokens for servers that need one, and the header of a request with one. */
export const [token, readToken] = ["an-operate-token-of-32-characters", "a-read-token-of-at-least-32-chars"] as const
export const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })
export const json = { "content-type": "application/json" }

export interface Options {
  readonly token?: string | Server.ServerOptions["token"]
  readonly readToken?: string
  readonly hosts?: Server.ServerOptions["hosts"]
  readonly tls?: Server.ServerOptions["tls"]
  readonly limits?: Exclude<Server.ServerOptions["limits"], undefined>
  readonly port?: number
  /** Calls to other processes; by default this process owns all streams. */
  readonly calls?: Layer.Layer<Calls, never, CallQueue>
  /** The streams that are read. */
  readonly api?: Scripted.ScriptedApi
  readonly dependencies?: ReadonlyArray<Dependency>
  readonly publishes?: boolean
  readonly storeFolder?: string | null
  /** Plugins, with the real delivery engine. */
  readonly plugins?: ReadonlyArray<Plugin<unknown>>
  /** The response of the API to writes of plugins; by default it supports no writes. */
  readonly write?: Source["Service"]["write"]
  readonly usageOf?: Server.ServerOptions["usageOf"]
}

const nothingSet = { variables: {}, secrets: new Map(), file: null, faults: [] }

/** Without configured integrations: every integration is added at run time. */
export const control = (api: Scripted.ScriptedApi, calls: Layer.Layer<Calls, never, CallQueue> = Calls.local) =>
  Commands.layer.pipe(
    Layer.provide(calls),
    Layer.provideMerge(
      Integrations.layer({ declared: [], discovered: new Map(), readers: [], processing: Processing.defaultProcessing })
    ),
    Layer.provideMerge(Forgetting.layer({ processing: Processing.defaultProcessing })),
    Layer.provideMerge(Capture.layer({ minOverlap: minute, confirmInterval: minute })),
    Layer.provide(Scripted.layer(api))
  )

const delivering = (
  plugins: ReadonlyArray<Plugin<unknown>>,
  api: Scripted.ScriptedApi,
  write: Options["write"]
) =>
  PluginAdminLayer.layer(plugins).pipe(
    Layer.provideMerge(Layer.provide(DeliveryEngine.layer({ plugins, retention: Duration.days(7) }), Placement.local)),
    Layer.provide(
      Layer.effect(Source, Effect.map(Source, (source) => write === undefined ? source : { ...source, write })).pipe(
        Layer.provide(Scripted.layer(api))
      )
    ),
    Layer.provide(NodeHttpClient.layerNodeHttp)
  )

const sourceOf = (token: Options["token"]): Server.ServerOptions["token"] =>
  typeof token === "string" ? { initial: [Redacted.make(token)], file: null } : token ?? null

/** The API over the provided store. */
export const server = (
  {
    api = Scripted.make(),
    calls = Calls.local,
    dependencies = [],
    publishes = false,
    hosts = [],
    limits = {},
    tls = null,
    plugins = [],
    port = 0,
    storeFolder = null,
    readToken,
    token,
    usageOf = () => Effect.succeed(null),
    write
  }: Options = {}
) =>
  Server.layer({
    host: "127.0.0.1",
    port,
    hosts,
    limits,
    tls,
    token: sourceOf(token),
    readToken: sourceOf(readToken),
    dependencies,
    publishes,
    storeFolder,
    samples: false,
    usageOf,
    checkIntegration: (body) => Config.checkIntegration(nothingSet, builtInModels, ["default", "eu"], body)
  }).pipe(
    Layer.provideMerge(control(api, calls)),
    Layer.provideMerge(plugins.length === 0 ? PluginAdmin.none : delivering(plugins, api, write))
  )

export const layer = (options?: Options) => server(options).pipe(Layer.provideMerge(MemoryStore.layer()))

export const key = { integration: "greenhouse:acme", model: "ats.tag" } as const

/** Registers a stream with these changes to its state. */
export const stream = Effect.fnUntraced(function*(
  change: Partial<StreamState> = {},
  { integration, model }: { readonly integration: string; readonly model: IncrementalModel } = key
) {
  const store = yield* Store
  const settings = { integration, model, account: "default", interval: minute, sweepInterval: minute }
  yield* store.ensureStreams([initialState(settings, minute)])
  const owner = yield* store.takeOwnership("capture")
  const connected = integrationOf(integration, { sweepInterval: 60_000, declared: true })
  yield* store.saveIntegration(owner, connected, null)
  yield* store.transact(owner, { integration, model }, (tx) => tx.saveState({ ...tx.state, ...change }))
})

interface Written {
  readonly integration?: string
  readonly model?: IncrementalModel
  /** Our clock, in ms. */
  readonly detectedAt?: number
  readonly transitions?: ReadonlyArray<string>
  readonly remoteId?: string | null
}

const changeOf = (
  id: string,
  content: string | null,
  before: Head | undefined,
  { detectedAt = 0, model = key.model, remoteId = null, transitions = [] }: Written = {}
): RecordWrite => {
  const version = (before?.version ?? 0) + 1
  const event: NewEvent = {
    eventId: `${id}-${version}-${model}`,
    id,
    remoteId,
    generation: 1,
    version,
    kind: content === null ? "deleted" : before?.live === true ? "updated" : "created",
    origin: "poll",
    after: content,
    changes: "[]",
    transitions: JSON.stringify(transitions.map((name) => ({ name, from: null, to: "x" }))),
    reason: content === null ? "flagged" : null,
    restored: false,
    changedAt: null,
    detectedAt,
    cause: null
  }
  const head: Head = {
    id,
    version,
    live: content !== null,
    position: before?.position ?? null,
    textHash: event.eventId,
    canonicalHash: event.eventId,
    fingerprint: "test",
    changedAt: null,
    lastSeenRunId: 1
  }
  return { head, events: [event], wasLive: before?.live === true }
}

/** Appends the next version of a record; content null deletes it. */
export const write = Effect.fnUntraced(function*(id: string, content: string | null, written: Written = {}) {
  const store = yield* Store
  const owner = yield* store.takeOwnership("capture")
  const { integration = key.integration, model = key.model } = written
  yield* store.transact(
    owner,
    { integration, model },
    (tx) => Effect.flatMap(headsOf(tx, [id]), (heads) => tx.write([changeOf(id, content, heads.get(id), written)]))
  )
})

/** Appends the first version of `count` records, `r0` and so on, in one transaction. */
export const writeMany = Effect.fnUntraced(function*(count: number) {
  const store = yield* Store
  const owner = yield* store.takeOwnership("capture")
  yield* store.transact(
    owner,
    key,
    (tx) => tx.write(Array.from({ length: count }, (_, index) => changeOf(`r${index}`, "{}", undefined)))
  )
})

/** One request with any headers, also those that `fetch` does not allow. */
export const send = Effect.fnUntraced(
  function*(method: string, path: string, headers: Record<string, string> = {}, body?: string | Buffer) {
    const { url } = yield* Server.Server
    const answer = yield* Effect.promise(async () => {
      const { hostname, port } = new URL(url)
      const sent = request({ host: hostname, port, method, path, headers, agent: false })
      const response = once(sent, "response")
      sent.end(body)
      const [message] = await response as [IncomingMessage]
      const chunks: Array<Buffer> = []
      for await (const chunk of message) chunks.push(chunk)
      return { status: message.statusCode, headers: message.headers, text: Buffer.concat(chunks).toString() }
    })
    const type = answer.headers["content-type"] ?? ""
    return { ...answer, type, body: type.includes("json") ? JSON.parse(answer.text) : null }
  }
)

/** Sends a POST request to the server. A text is sent as it is. */
export const post = Effect.fnUntraced(function*(path: string, body: unknown = {}) {
  const { url } = yield* Server.Server
  const headers = { "content-type": "application/json" }
  const answer = yield* Effect.promise(() =>
    fetch(`${url}${path}`, { method: "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) })
  )
  return { status: answer.status, body: yield* Effect.promise(() => answer.json()) }
})

/** One request to the server. */
export const ask = Effect.fnUntraced(function*(path: string, headers: Record<string, string> = {}) {
  const { url } = yield* Server.Server
  const response = yield* Effect.promise(() => fetch(`${url}${path}`, { headers }))
  const text = yield* Effect.promise(() => response.text())
  const type = response.headers.get("content-type") ?? ""
  return { status: response.status, type, text, body: type.includes("json") ? JSON.parse(text) : null }
})

/** Runs a command of the command line for the server. */
export const rollcall = (...args: ReadonlyArray<string>) =>
  Effect.flatMap(
    Server.Server,
    ({ url }) => Effect.promise(() => runCommand(args, { ROLLCALL_HTTP_PORT: new URL(url).port }))
  )

/** Builds a separate server for one test. */
export const using =
  (options?: Options) => <A, E>(test: Effect.Effect<A, E, Layer.Success<ReturnType<typeof layer>>>) =>
    Effect.scoped(Effect.provide(test, layer(options)))

type Provided = Layer.Success<ReturnType<typeof layer>>

const serving = (run: typeof it.live) =>
(
  sentence: string,
  test: () => Generator<Effect.Effect<unknown, unknown, Provided | Scope>, void>,
  options?: Options
) => run(sentence, () => Effect.gen(test).pipe(Effect.scoped, using(options)))

/** A test with a server of its own, in a scope. `virtual`: with a clock that the test moves. */
export const served = Object.assign(serving(it.live), { virtual: serving(it.effect) })
