/** Builds the capabilities that a handler gets for one attempt. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import type { HttpClientRequest } from "effect/http/HttpClientRequest"
import { type ReadName, readNames } from "../../api/Reads.ts"
import { Empty, type WriteBody, type WriteData, type WriteName, writeNames, writeSchemas } from "../../api/Writes.ts"
import type { ReadModel } from "../../domain/BuiltInModels.ts"
import { parsePosition } from "../../domain/ChangeEvent.ts"
import { type AnyList, type AnyListTrigger, nameOfModel, nameOfTrigger } from "../../domain/DefinedList.ts"
import {
  Api,
  type Capabilities,
  Events,
  Journal,
  type Reads,
  Records,
  type UnifiedApi,
  type WriteOptions,
  type Writes
} from "../../plugin/Capabilities.ts"
import type { OneOf, RecordIn, Trigger } from "../../plugin/Event.ts"
import { eventFor, toPublishedEvent, unfiltered } from "../../plugin/EventMatching.ts"
import { type HandlerError, Permanent, RateLimited } from "../../plugin/Failure.ts"
import { lazily, lazyClient } from "../../plugin/Lazy.ts"
import {
  type Invalid,
  type Page,
  type ReadRequest,
  SlotWait,
  type Source,
  type SourceError
} from "../../source/Source.ts"
import type { Store } from "../../store/Store.ts"
import { type Attempt, CurrentStep } from "./Attempt.ts"
import * as ErrorMapping from "./ErrorMapping.ts"
import * as StepJournal from "./StepJournal.ts"
import * as WriteBack from "./WriteBack.ts"
import type * as WriteVerification from "./WriteVerification.ts"

export interface Services extends WriteBack.Services {
  readonly store: Pick<Store["Service"], "identity" | "readLog">
  readonly client: HttpClient.HttpClient
}

const rowsAtOnce = 500

/** Pauses the handler's timer while a request waits for a slot at the API. */
const pausingTimer = (source: Source["Service"], { timer }: Attempt): Source["Service"] => {
  const waiting = Effect.provideService(SlotWait, (wait) => timer.waiting(wait))
  return {
    page: (request) => waiting(source.page(request)),
    read: (request) => waiting(source.read(request)),
    write: (request, hooks) => waiting(source.write(request, hooks))
  }
}

/** If the integration of the delivery is removed, the delivery is deferred, like deliveries that have not started. */
const deferringIfRemoved = ({ accounts }: Services, { integration: own }: Attempt): Services["accounts"] => ({
  of: (integration) =>
    integration !== own ? accounts.of(integration) : Effect.mapError(
      accounts.of(integration),
      (error) => error._tag === "Permanent" ? RateLimited.after(ErrorMapping.removedRetryDelay) : error
    )
})

// ---- the API ------------------------------------------------------------------------------------------------------

type Send = <W extends WriteName>(
  wanted: WriteVerification.RequestedWrite<W>
) => Effect.Effect<WriteData<W>, HandlerError>

/** Converts the call `(id?, body?, options?)` of a write, according to the write's schemas. */
const writeOf = <W extends WriteName>(send: Send, integration: string, write: W) => (...request: Array<unknown>) => {
  const { body, params } = writeSchemas[write]
  const rest = [...request]
  const names = Object.keys(params)
  const values = Object.fromEntries(names.map((name) => [name, rest.shift()]))
  return send({
    integration,
    write,
    // the call is typed, and `Source` checks the values before it sends them
    params: values as WriteVerification.RequestedWrite<W>["params"],
    body: (body === Empty ? {} : rest.shift()) as WriteBody<W>,
    options: (rest.shift() ?? {}) as WriteOptions<W>
  })
}

const writesOf = (send: Send, integration: string): Writes =>
  Object.fromEntries(writeNames.map((write) => [write, writeOf(send, integration, write)])) as Writes

const readsOf = ({ accounts, source }: Services, attempt: Attempt, integration: string): Reads => {
  const callApi = <A>(what: string, call: (account: string) => Effect.Effect<A, SourceError | Invalid>) =>
    attempt.ensureClaimed.pipe(
      Effect.andThen(accounts.of(integration)),
      Effect.flatMap((account) =>
        Effect.mapError(call(account), (error) => ErrorMapping.fromApi(what, error, account))
      ),
      Effect.tapError(() => attempt.recordRequest(what, integration, "refused")),
      Effect.tap(attempt.recordRequest(what, integration, "done"))
    )
  const priority = "write"
  const read = <R extends ReadName>(name: R, params: ReadRequest<R>["params"]) =>
    callApi(name, (account) => {
      const where = (name === "tools" ? null : integration) as ReadRequest<R>["integration"]
      return source.read({ account, integration: where, read: name, params, priority })
    })
  const live = <M extends ReadModel | AnyList>(of: M, id: string) => {
    const model = nameOfModel(of)
    return callApi(`live ${model}`, (account) =>
      Effect.gen(function*() {
        let cursor: string | null = null
        do {
          const page: Pick<Page, "results" | "next"> = yield* source.page({
            account,
            integration,
            model,
            priority,
            cursor,
            updatedAfter: null,
            ids: [id]
          })
          const found = page.results.find((row) => row.id === id)
          // not decoded: a record that does not match the schema is returned as the API shows it
          if (found !== undefined) return found.value as RecordIn<M>
          cursor = page.next
        } while (cursor !== null)
        return null
      }))
  }
  return {
    live,
    attachments: (application_id) => read("attachments", { application_id }),
    employeeForm: (staffing_entity_id) =>
      read("employeeForm", staffing_entity_id === undefined ? {} : { staffing_entity_id }),
    assessmentPackages: () => read("assessmentPackages", {}),
    tools: (category) => read("tools", { category })
  }
}

const apiOf = (services: Services, attempt: Attempt): Api["Service"] => {
  // most attempts write nothing
  let made: Send | undefined
  const send: Send = (wanted) => (made ??= WriteBack.make(services, attempt))(wanted)
  const of = (integration: string): UnifiedApi => ({
    integration,
    ...writesOf(send, integration),
    ...readsOf(services, attempt, integration)
  })
  return { ...of(attempt.integration), for: of }
}

// ---- the store ---------------------------------------------------------------------------------------------------

/** Maximum number of applications that are read for one candidate. */
const maxApplications = 50

const recordsOf = ({ journal }: Services, attempt: Attempt): Records["Service"] => ({
  get: (of, id, integration = attempt.integration) =>
    journal.content({ integration, model: nameOfModel(of) }, id).pipe(
      Effect.map((content) => content === null ? null : JSON.parse(content)),
      Effect.mapError(ErrorMapping.fromStore)
    ),
  applicationsOf: Effect.fnUntraced(function*(candidate, integration = attempt.integration) {
    const ids = yield* journal.applicationsOf(integration, candidate, maxApplications)
    const contents = yield* Effect.forEach(
      ids,
      (id) => journal.content({ integration, model: "ats.application" }, id)
    )
    return contents.flatMap((content) => content === null ? [] : [JSON.parse(content)])
  }, Effect.mapError(ErrorMapping.fromStore))
})

const eventsOf = ({ store }: Services, attempt: Attempt): Events["Service"] => {
  const at = (position: string) => {
    const parsed = parsePosition(store.identity, position)
    return typeof parsed === "object"
      ? Effect.succeed(parsed.position)
      : Effect.fail(new Permanent({ message: `"${position}" is not a position of this log` }))
  }
  return {
    between: Effect.fnUntraced(function*<T extends Trigger | AnyListTrigger>(of: T, from: string, to: string) {
      const trigger = nameOfTrigger(of)
      const model = trigger.slice(0, trigger.lastIndexOf("."))
      const subscription = {
        activation: { _tag: "Event", triggers: [trigger], changed: null },
        options: unfiltered
      } as const
      const end = yield* at(to)
      const events: Array<OneOf<T>> = []
      let after = yield* at(from)
      while (true) {
        const rows = yield* Effect.mapError(
          store.readLog({ after, limit: rowsAtOnce, integrations: [attempt.integration], models: [model] }),
          ErrorMapping.fromStore
        )
        for (const entry of rows) {
          const event = entry.position > end
            ? null
            : eventFor("", subscription, toPublishedEvent(store.identity, entry))
          // `eventFor` returns the event of the trigger, so the cast is safe
          if (event !== null) events.push(event as OneOf<T>)
        }
        const last = rows.at(-1)
        if (last === undefined || rows.length < rowsAtOnce || last.position >= end) return events
        after = last.position
      }
    })
  }
}

// ---- other services ----------------------------------------------------------------------------------------------

const safeMethods: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"])

const hostOf = ({ url }: HttpClientRequest): string => URL.parse(url)?.host ?? "?"

const clientOf = ({ client }: Services, attempt: Attempt): HttpClient.HttpClient =>
  HttpClient.transform(client, (response, request) =>
    Effect.gen(function*() {
      const what = `${request.method} ${hostOf(request)}`
      yield* Effect.mapError(attempt.ensureClaimed, ({ message }) =>
        new HttpClientError.HttpClientError({
          reason: new HttpClientError.TransportError({ request, description: message })
        }))
      const step = safeMethods.has(request.method) ? null : yield* CurrentStep
      if (step !== null) step.unanswered++
      const result = yield* Effect.tapError(response, () => attempt.recordRequest(what, null, "unknown"))
      if (step !== null && result.status < 500) step.unanswered--
      yield* attempt.recordRequest(what, null, "done")
      return result
    }))

const lazyApi = lazily<Api["Service"]>([
  ...writeNames,
  ...readNames,
  "live",
  "integration",
  "for"
])
const lazyRecords = lazily<Records["Service"]>(["get", "applicationsOf"])
const lazyEvents = lazily<Events["Service"]>(["between"])
const lazyJournal = lazily<Journal["Service"]>(["once", "oncePerRecord"])

/** The capabilities fail once the attempt is over. */
export const contextOf = (all: Services, attempt: Attempt): Context.Context<Capabilities> => {
  const services = () => ({
    ...all,
    source: pausingTimer(all.source, attempt),
    accounts: deferringIfRemoved(all, attempt)
  })
  return Context.make(Api, lazyApi(() => apiOf(services(), attempt))).pipe(
    Context.add(Records, lazyRecords(() => recordsOf(all, attempt))),
    Context.add(Events, lazyEvents(() => eventsOf(all, attempt))),
    Context.add(Journal, lazyJournal(() => StepJournal.make(all.journal, attempt))),
    Context.add(HttpClient.HttpClient, lazyClient(() => clientOf(all, attempt)))
  )
}
