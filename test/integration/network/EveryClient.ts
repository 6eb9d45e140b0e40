/**
 * A process that uses every HTTP client of Rollcall: it reads the API, its plugin sends requests with both clients that a handler has, it
 * exports traces and metrics, gets a token for Kafka, and registers schemas. Nothing listens at the address of the broker.
 */
import * as Effect from "effect/Effect"
import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { freePort } from "../../support/services/FreePort.ts"
import { inDirectory, type Start } from "../cli/Program.ts"
import * as TestRegistry from "../kafka/TestRegistry.ts"
import * as TokenIssuer from "../kafka/TokenIssuer.ts"
import { Loopback } from "../source/Loopback.ts"
import { Receiver } from "../telemetry/Receiver.ts"

export const serverNames = ["api", "sent", "fetched", "collector", "registry", "tokens"] as const
/** The origin of each server. */
export type Origins = Readonly<Record<typeof serverNames[number], string>>

const effect = realpathSync(fileURLToPath(new URL("../../../node_modules/effect", import.meta.url)))

const configuration = ({ api, fetched, registry, sent, tokens }: Origins, integration: string) =>
  `import { defineConfig, secret } from "rollcall"
import * as Plugin from "rollcall/plugin"
import * as Effect from "effect/Effect"
import * as HttpClientRequest from "effect/http/HttpClientRequest"

const found = (as) => ({ as, origins: ["backfill"] })
export default defineConfig({
  accounts: { default: { url: "${api}/v1", key: secret("KEY") } },
  integrations: [{ id: "${integration}", models: ["ats.tag"] }],
  kafka: {
    brokers: ["127.0.0.1:1"],
    sasl: {
      mechanism: "oauthbearer",
      tokenUrl: "${tokens}/token",
      clientId: "${TokenIssuer.client.clientId}",
      clientSecret: secret("CLIENT_SECRET"),
      scope: "kafka"
    },
    schemaRegistry: {
      url: "${registry}",
      username: "${TestRegistry.login.username}",
      password: secret("REGISTRY_PASSWORD")
    }
  },
  plugins: [
    Plugin.make("poster")
      .on("ats.tag.created", found("sending"), () => Effect.asVoid(Plugin.send(HttpClientRequest.post("${sent}/"))))
      .on("ats.tag.created", found("fetching"), async (event, { fetch }) => {
        const { status } = await fetch("${fetched}/", { method: "POST" })
        if (status !== 200) throw new Error(\`refused with \${status}\`)
      })
  ]
})
`

interface EveryClient {
  /** Starts Rollcall with the configuration. */
  readonly rollcall: (args: ReadonlyArray<string>, variables?: Readonly<Record<string, string>>) => ReturnType<Start>
  /** The origin of the operating API. */
  readonly operatingApi: string
}

/** `reachedAs`: the origins that the configuration names, by those of the servers themselves. */
export const withEveryClient = <A>(
  reachedAs: (origins: Origins) => Promise<Origins>,
  use: (every: EveryClient) => Promise<A>
) =>
  Effect.gen(function*() {
    const hook = yield* Loopback.serving((incoming, response) => incoming.resume().on("end", () => response.end()))
    const { origin: hooks } = new URL(hook.url)
    const { url: registry } = yield* TestRegistry.testRegistry
    const tokens = new URL((yield* TokenIssuer.tokenIssuer).url).origin
    const collector = yield* Effect.acquireRelease(
      Effect.promise(() => Receiver.start()),
      (receiver) => Effect.promise(() => receiver.stop())
    )
    return yield* Effect.promise(() =>
      inDirectory(async (directory, start, serve) => {
        const { integrations: [id = ""], url } = await serve({ records: 10, speed: 0, integrations: 1 })
        const origins = {
          api: new URL(url).origin,
          sent: hooks,
          fetched: hooks,
          collector: collector.url,
          registry,
          tokens
        }
        const reached = await reachedAs(origins)
        mkdirSync(join(directory, "node_modules"))
        symlinkSync(effect, join(directory, "node_modules/effect"))
        writeFileSync(join(directory, "rollcall.config.ts"), configuration(reached, id))
        const port = String(await freePort())
        const environment = {
          KEY: "sandbox",
          CLIENT_SECRET: TokenIssuer.client.clientSecret,
          REGISTRY_PASSWORD: TestRegistry.login.password,
          ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
          ROLLCALL_HTTP_PORT: port,
          OTEL_EXPORTER_OTLP_ENDPOINT: reached.collector,
          OTEL_BSP_SCHEDULE_DELAY: "100",
          OTEL_METRIC_EXPORT_INTERVAL: "500"
        }
        return use({
          rollcall: (args, variables) => start(args, { ...environment, ...variables }, directory),
          operatingApi: `http://127.0.0.1:${port}`
        })
      })
    )
  })
