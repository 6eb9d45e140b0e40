/** Requests to the operating API. */

/** The right of the user, from the page. */
export const mayOperate = document.body.dataset["right"] === "operate"
export const isSignedIn = document.body.dataset["session"] === "true"
export const version = document.body.dataset["version"] ?? ""

/** A fault of one part of a request. */
export interface Fault {
  readonly where: string
  readonly message: string
  readonly hint: string
}

/** A refused request: what happened, and what to do. */
export class RequestError extends Error {
  readonly status: number
  readonly hint: string | null
  readonly faults: ReadonlyArray<Fault>
  constructor(status: number, message: string, hint: string | null, faults: ReadonlyArray<Fault> = []) {
    super(message)
    this.status = status
    this.hint = hint
    this.faults = faults
  }
}

export interface RequestOptions {
  readonly signal?: AbortSignal
  /** The page repeats the request by itself: it does not keep the session open. */
  readonly automatic?: boolean
  /** A state that was read after this moment. */
  readonly fresh?: boolean
}

const headersOf = ({ automatic, fresh }: RequestOptions): Record<string, string> => ({
  ...automatic === true ? { "rollcall-refresh": "automatic" } : {},
  ...fresh === true ? { "cache-control": "no-cache" } : {}
})

/** Shows the login page; afterwards the user is back here. */
export const signIn = (): void => {
  location.assign(`/login?to=${encodeURIComponent(`${location.pathname}${location.search}`)}`)
}

const failure = async (response: Response): Promise<RequestError> => {
  const problem = await response.json().catch(() => null) as
    | { detail?: string; hint?: string; faults?: ReadonlyArray<Fault> }
    | null
  return new RequestError(
    response.status,
    problem?.detail ?? `the server answered with status ${response.status}`,
    problem?.hint ?? problem?.faults?.map(({ hint, message, where }) => `${where}: ${message}. ${hint}.`).join(" ") ??
      null,
    problem?.faults
  )
}

const unreachable = new RequestError(
  0,
  "The process does not answer.",
  "It may be restarting, or the network is down. If this lasts, check that the process runs, with the command rollcall status on its host. " +
    "When it is started again, it continues where it stopped."
)

const send = async (path: string, init: RequestInit): Promise<Response> => {
  const response = await fetch(path, { ...init, cache: "no-store" }).catch((error: unknown) => {
    throw error instanceof DOMException && error.name === "AbortError" ? error : unreachable
  })
  if (response.status === 401) {
    signIn()
    throw new RequestError(401, "The session has ended.", null)
  }
  if (!response.ok) throw await failure(response)
  return response
}

export const get = async <A>(path: string, options: RequestOptions = {}): Promise<A> => {
  const headers = { accept: "application/json", ...headersOf(options) }
  const response = await send(path, { headers, signal: options.signal ?? null })
  return await response.json() as A
}

const command = async <A>(method: string, path: string, body: unknown, options: RequestOptions = {}): Promise<A> => {
  const headers = { accept: "application/json", "content-type": "application/json", ...headersOf(options) }
  const response = await send(path, { method, headers, body: JSON.stringify(body) })
  return await response.json() as A
}

export const post = <A>(path: string, body: unknown = {}, options: RequestOptions = {}): Promise<A> =>
  command("POST", path, body, options)
export const remove = <A>(path: string): Promise<A> => command("DELETE", path, {})

/** Reads server-sent events until the server or the signal ends them; `on` gets the data of each. */
export const follow = async (path: string, signal: AbortSignal, on: (data: string) => void): Promise<void> => {
  const headers = { accept: "text/event-stream", "rollcall-refresh": "automatic" }
  const { body } = await send(path, { headers, signal })
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ""
  for (;;) {
    const chunk = await reader?.read()
    if (chunk === undefined || chunk.done) return
    text += chunk.value
    const events = text.split("\n\n")
    text = events.pop() ?? ""
    for (const event of events) {
      const data = /^data: (.*)$/m.exec(event)?.[1]
      if (data !== undefined) on(data)
    }
  }
}
