/** Readers of the log over HTTP, and a server that counts the pages of the log it reads. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Server from "../../../src/http/Server.ts"
import { Store } from "../../../src/store/Store.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import * as Running from "./Running.ts"

export const names = (body: { events: ReadonlyArray<{ subject: string; data: { version: number } }> }) =>
  body.events.map((event) => `${event.subject} v${event.data.version}`)

/** The API over a store that counts the pages of the log that are read, and limits their length. */
export class PagesRead extends Context.Service<PagesRead, { count: number; longest: number }>()("test/PagesRead") {
  static readonly layer = Layer.effectContext(Effect.gen(function*() {
    const pages = { count: 0, longest: 0 }
    const store = yield* Store
    const readLog: (typeof store)["readLog"] = (query) => {
      pages.count += 1
      pages.longest = Math.max(pages.longest, query.limit)
      return store.readLog(query)
    }
    return Context.make(PagesRead, pages).pipe(Context.add(Store, { ...store, readLog }))
  })).pipe(
    Layer.provideMerge(MemoryStore.layer()),
    (counted) => Layer.provideMerge(Running.server(), counted)
  )
}

/** Reads server-sent events until `enough` returns true. */
export const listen = Effect.fnUntraced(function*(
  headers: Record<string, string>,
  query: string,
  enough: (text: string) => boolean
) {
  const { url } = yield* Server.Server
  return yield* Effect.promise(async (signal) => {
    const response = await fetch(`${url}/v1/events${query}`, {
      headers: { accept: "text/event-stream", ...headers },
      signal
    })
    let text = ""
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk
      if (enough(text)) break
    }
    return { status: response.status, type: response.headers.get("content-type"), text }
  })
})
export const ids = (text: string) => [...text.matchAll(/^id: (.*)$/gm)].map((match) => match[1])
export const subjects = (text: string) =>
  [...text.matchAll(/^data: (.*)$/gm)].map((match) => JSON.parse(match[1] ?? "").subject)
