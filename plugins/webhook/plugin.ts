/**
 * Sends events to a URL in the format of Standard Webhooks 1.0.
 *
 * Invariants
 * 1. The messages of a record are sent one after another; a failed message delays the later ones   (I5)
 * 2. The same event always has the same `webhook-id` and the same body, even if the event is sent several times
 *
 * Gotchas
 * - A lost response looks the same as a lost message, so a message may arrive twice. Receivers ignore ids that they have seen.
 */
import * as Plugin from "#plugin"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Schema from "effect/Schema"
import { headersOf, Secret } from "./Signature.ts"

/** The name of a configuration value that contains a secret, as returned by `secret("WEBHOOK_SECRET")` of `rollcall`. */
export interface SecretName {
  readonly secret: string
}

export interface Options<T extends Plugin.Trigger> {
  /** Name of the plugin; `webhook` by default. Several webhooks need different names. */
  readonly name?: string
  /** `https://…`; `http://…` only on this machine, or with `allowPlaintext`. */
  readonly url: string
  /** Whether `url` may be `http://…` on another machine, although others on the network can then read the messages; false by default. */
  readonly allowPlaintext?: boolean
  /** A secret has the form `whsec_…`. During a rotation, list the old and the new one: each signs every message. */
  readonly secret: SecretName | readonly [SecretName, ...ReadonlyArray<SecretName>]
  readonly triggers: ReadonlyArray<T>
  /** `full` (default): messages contain the record before and after. `ids`: no content; the receiver requests the record itself. */
  readonly content?: "full" | "ids"
  /** `application/json` (default), or `application/cloudevents+json` for receivers that read CloudEvents over HTTP. The body is the same. */
  readonly contentType?: "application/json" | "application/cloudevents+json"
}

type Event<T extends Plugin.Trigger> = Plugin.OneOf<T>

const dataOf = <T extends Plugin.Trigger>(event: Event<T>, content: "full" | "ids") => ({
  integration: event.integration,
  model: event.model,
  id: event.recordId,
  remote_id: event.remoteId,
  generation: event.generation,
  version: event.version,
  kind: event.kind,
  origin: event.origin,
  ...(content === "full" && { before: event.before, after: event.after, changes: event.changes }),
  transition: "transition" in event ? event.transition : null,
  reason: event.reason,
  restored: event.restored,
  changed_at: event.changedAt,
  detected_at: event.detectedAt.toISOString(),
  cause: event.cause
})

/** A CloudEvent as JSON, with the additional `timestamp` that Standard Webhooks receivers expect. */
const bodyOf = <T extends Plugin.Trigger>(event: Event<T>, content: "full" | "ids"): string => {
  const time = event.detectedAt.toISOString()
  const name = "transition" in event ? event.transition.name : event.kind
  return JSON.stringify({
    specversion: "1.0",
    id: event.id,
    type: `rollcall.${event.model}.${name}`,
    source: `/integrations/${event.integration}`,
    subject: event.recordId,
    time,
    timestamp: time,
    datacontenttype: "application/json",
    position: event.position,
    data: dataOf(event, content)
  })
}

/** The mistake in the options; null if there is none. The message does not contain the URL, which may be a secret. */
const faultOf = (
  { allowPlaintext = false, secret, url }: Pick<Options<never>, "secret" | "url" | "allowPlaintext">
): string | null => {
  const fault = Plugin.addressFault(url, { allowPlaintext, allowedBy: "allowPlaintext: true" })
  if (fault !== null) return `url ${fault}`
  return Array.isArray(secret) && secret.length === 0
    ? "secret is an empty list, so the messages would not be signed: name at least one secret"
    : null
}

/** A plugin that sends the events of these triggers to `url`. */
export const webhook = <const T extends Plugin.Trigger>(
  {
    allowPlaintext = false,
    content = "full",
    contentType = "application/json",
    name = "webhook",
    secret,
    triggers,
    url
  }: Options<T>
) => {
  const names = "secret" in secret ? [secret] : secret
  const secrets = names.map(({ secret }) => Config.schema(Schema.Redacted(Secret), secret))
  const fault = faultOf({ allowPlaintext, secret, url })
  // as a fault of the configuration it is reported at start and by `rollcall doctor`
  const config = fault === null ? Config.all(secrets) : Config.fail(new ConfigProvider.SourceError({ message: fault }))
  return Plugin.make(name, { config }).onAny(
    triggers,
    // attempts over two and a half days, as the specification suggests
    { as: "send", timeout: "30 seconds", attempts: 18, retry: { first: "5 seconds", longest: "12 hours" } },
    Effect.fn("Webhook.send")(function*(event, { config: secrets }) {
      const body = bodyOf(event, content)
      const at = yield* Clock.currentTimeMillis
      const headers = yield* headersOf({ id: event.id, at, body }, secrets)
      yield* Plugin.send(
        HttpClientRequest.post(url).pipe(
          HttpClientRequest.setHeaders(headers),
          HttpClientRequest.bodyText(body, contentType)
        )
      )
    })
  )
}
