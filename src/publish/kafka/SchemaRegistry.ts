/**
 * A schema registry with Confluent's API: registers the JSON Schema of each topic's values under the subject `<topic>-value`, and
 * puts the schema's id before each value, as Confluent's serializers do: a zero byte, the id in four bytes, the JSON.
 *
 * Invariants
 * 1. Nothing is sent to a topic before its schema is registered: while the registry does not respond, the relay waits
 * 2. No error contains the login   (I11)
 *
 * Gotchas
 * - Schemas are registered as draft 7: Apicurio Registry cannot compare two schemas of draft 2020-12. Ours use only keywords that
 *   both drafts have.
 * - A registry that was emptied gives the same schema another id, and may give the old id to another schema. A schema is therefore
 *   registered again from time to time, which is safe: a registry returns the id that the schema already has.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { JsonSchema } from "../RecordSchema.ts"
import { refused, SinkError, Unreachable } from "../Sink.ts"
import { type Frame, plainJson } from "./KafkaMessage.ts"
import * as ServerRequest from "./ServerRequest.ts"

export interface RegistryOptions {
  /** `https://registry.example.com`, with a path if the registry has one. */
  readonly url: string
  readonly login: { readonly username: string; readonly password: Redacted.Redacted } | null
}

/** A topic and the schema of its values. */
export interface TopicSchema {
  readonly topic: string
  readonly schema: () => JsonSchema
}

export interface SchemaRegistry {
  /** Registers the schemas that this process has not registered yet, and from time to time all of them again. */
  readonly register: (topics: Iterable<TopicSchema>) => Effect.Effect<void, SinkError>
  /** The value for a topic whose schema is registered. */
  readonly frame: Frame
  /** Fails if the registry does not respond, refuses the login, or would refuse a schema. Registers nothing. */
  readonly check: (topics: Iterable<TopicSchema>) => Effect.Effect<void, SinkError>
}

const mediaType = "application/vnd.schemaregistry.v1+json"
const advice = "Check kafka.schemaRegistry.url, and that the registry can be reached."
const unavailable = (message: string): SinkError =>
  new SinkError({ reason: new Unreachable({ message, cause: null, advice, service: "The schema registry" }) })
const compatibility =
  "the registry's compatibility rule for this subject forbids it. A newer schema only adds optional properties, which some rules " +
  "call incompatible: set the subject's compatibility to FORWARD, which allows them, or to NONE. Delete the subject if other programs made it."

const Registered = Schema.Struct({ id: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 31 - 1 })) })
const Compatibility = Schema.Struct({ is_compatible: Schema.Boolean })

/** How long an id is used before its schema is registered again (ms). */
const idLifetime = Duration.toMillis("1 hour")

/** A schema of draft 2020-12 as one of draft 7. */
const asDraft7 = (schema: JsonSchema): string =>
  JSON.stringify({ ...schema, $schema: "http://json-schema.org/draft-07/schema#" })
    .replaceAll('"$defs":', '"definitions":')
    .replaceAll('"$ref":"#/$defs/', '"$ref":"#/definitions/')

const subjectOf = (topic: string): string => `${topic}-value`

const make = ({ login, url }: RegistryOptions) => {
  const { host, pathname } = new URL(url)
  const name = `the schema registry ${host}${pathname === "/" ? "" : pathname}`
  const base = url.replace(/\/+$/, "")

  const send = (
    method: "GET" | "POST",
    path: string,
    body?: object
  ): Effect.Effect<ServerRequest.ServerResponse, SinkError> => {
    const request = HttpClientRequest.make(method)(`${base}${path}`).pipe(
      HttpClientRequest.accept(`${mediaType}, application/json`),
      login === null ? (same) => same : HttpClientRequest.basicAuth(login.username, login.password),
      body === undefined ? (same) => same : HttpClientRequest.bodyText(JSON.stringify(body), mediaType)
    )
    return Effect.mapError(ServerRequest.send(request), (why) => unavailable(`${name} did not respond (${why})`))
  }

  /** The error of a response that is not a success. */
  const failure = (doing: string, { status }: ServerRequest.ServerResponse): SinkError => {
    const message = `${doing}: ${name} answered with status ${status}`
    if (status === 401 || status === 403) {
      return refused(message, "check kafka.schemaRegistry.username and password, and the permissions of this user.")
    }
    if (status === 409) return refused(message, compatibility)
    if (status === 422) {
      return refused(
        message,
        "the registry does not accept JSON Schema: use a newer version of the registry."
      )
    }
    return status === 404 || status === 405
      ? refused(message, "check kafka.schemaRegistry.url: this is not the address of a schema registry.")
      : unavailable(message)
  }

  const bodyOf = (schema: JsonSchema) => ({ schemaType: "JSON", schema: asDraft7(schema) })

  const register = Effect.fn("SchemaRegistry.register")(function*({ schema, topic }: TopicSchema) {
    const subject = subjectOf(topic)
    const response = yield* send("POST", `/subjects/${encodeURIComponent(subject)}/versions`, bodyOf(schema()))
    const registered = Option.flatMap(response.body, Schema.decodeUnknownOption(Registered))
    if (response.status === 200 && Option.isSome(registered)) return registered.value.id
    return yield* failure(`registering the schema of ${subject}`, response)
  })

  const check = Effect.fn("SchemaRegistry.check")(function*({ schema, topic }: TopicSchema) {
    const subject = subjectOf(topic)
    const path = `/compatibility/subjects/${encodeURIComponent(subject)}/versions/latest`
    const response = yield* send("POST", path, bodyOf(schema()))
    if (response.status === 404) return // the subject does not exist yet
    const answer = Option.flatMap(response.body, Schema.decodeUnknownOption(Compatibility))
    if (response.status !== 200 || Option.isNone(answer)) {
      return yield* failure(`checking the schema of ${subject}`, response)
    }
    if (!answer.value.is_compatible) {
      return yield* refused(`the schema of ${subject} differs from the registered one`, compatibility)
    }
  })

  const subjects = Effect.flatMap(
    send("GET", "/subjects"),
    (response) => response.status === 200 ? Effect.void : Effect.fail(failure("listing the subjects", response))
  )

  return { register, check, subjects }
}

export const fromOptions = (options: RegistryOptions): SchemaRegistry => {
  const { check, register, subjects } = make(options)
  const ids = new Map<string, { readonly id: number; readonly usableUntil: number }>()

  /** If the registry returns no id, the known ids are used for another `idLifetime`. */
  const renew = Effect.fnUntraced(function*(topic: TopicSchema, known: number, usableUntil: number) {
    const id = yield* register(topic).pipe(
      Effect.tapError(({ message }) => Effect.logWarning(`could not compare a schema with the registry: ${message}`)),
      Effect.option
    )
    if (Option.isNone(id)) {
      for (const [name, { id }] of ids) ids.set(name, { id, usableUntil })
      return
    }
    ids.set(topic.topic, { id: id.value, usableUntil })
    if (id.value === known) return
    yield* Effect.logWarning(
      `the schema registry gave the schema of ${
        subjectOf(topic.topic)
      } the id ${id.value}, and ${known} before: it lost the earlier ` +
        "schema, so consumers cannot decode earlier messages. Restore the registry from a backup, or run `rollcall store adopt`, " +
        "which publishes every live record again"
    )
  })

  return {
    register: Effect.fnUntraced(function*(topics) {
      const now = yield* Clock.currentTimeMillis
      const usableUntil = now + idLifetime
      for (const topic of topics) {
        const known = ids.get(topic.topic)
        if (known === undefined) ids.set(topic.topic, { id: yield* register(topic), usableUntil })
        else if (now >= known.usableUntil) yield* renew(topic, known.id, usableUntil)
      }
    }),
    frame: (topic, value) => {
      const id = ids.get(topic)?.id
      if (id === undefined) throw new Error(`the schema of ${topic} is not registered`)
      const head = Buffer.alloc(5)
      head.writeInt32BE(id, 1)
      return Buffer.concat([head, Buffer.from(value)])
    },
    check: (topics) => Effect.andThen(subjects, Effect.forEach(topics, check, { discard: true }))
  }
}

/** Values are plain JSON. */
export const none: SchemaRegistry = {
  register: () => Effect.void,
  frame: plainJson,
  check: () => Effect.void
}
