/** Reads something from the API, and reads it again whenever the live state changes. */
import type { ComponentChildren } from "preact"
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { get, RequestError } from "../Client.ts"
import { ticks } from "../Live.ts"
import { Failure, Loading } from "./Basics.tsx"

/** A page of a list. */
export interface Page<A> {
  readonly items: ReadonlyArray<A>
  readonly next: string | null
}

export interface Resource<A> {
  readonly data: A | null
  readonly error: RequestError | null
  /** Reads it again; `fresh`: a state after this moment. */
  readonly reload: () => Promise<void>
}

interface State<A> {
  readonly path: string
  readonly data: A | null
  readonly error: RequestError | null
}

const toError = (error: unknown): RequestError =>
  error instanceof RequestError ? error : new RequestError(0, String(error), null)

/** While it is read again, the last data stays. `isLive`: read it again whenever the state changes. */
export function useResource<A>(path: string, isLive = true): Resource<A> {
  const [state, setState] = useState<State<A>>({ path, data: null, error: null })
  const running = useRef<AbortController | null>(null)
  const tick = isLive ? ticks.value : 0

  const load = useCallback(async (automatic: boolean, fresh: boolean) => {
    running.current?.abort()
    const stop = new AbortController()
    running.current = stop
    try {
      const data = await get<A>(path, { signal: stop.signal, automatic, fresh })
      setState({ path, data, error: null })
    } catch (error) {
      if (stop.signal.aborted) return
      setState((before) => ({ path, data: before.path === path ? before.data : null, error: toError(error) }))
    } finally {
      if (running.current === stop) running.current = null
    }
  }, [path])

  useEffect(() => {
    void load(false, false)
    return () => running.current?.abort()
  }, [load])

  useEffect(() => {
    // a slow answer is awaited: otherwise each new state would cancel it
    if (tick > 0 && running.current === null && !document.hidden) void load(true, false)
  }, [tick])

  const reload = useCallback(() => load(false, true), [load])
  return state.path === path ? { data: state.data, error: state.error, reload } : { data: null, error: null, reload }
}

/** Shows the data, or that it is loading, or why it is not there. Old data stays visible below an error. */
export function Loaded<A>({ children, resource: { data, error, reload } }: {
  readonly resource: Resource<A>
  readonly children: (data: A) => ComponentChildren
}) {
  const missing = error === null ? <Loading /> : null
  return (
    <>
      {error === null ? null : <Failure error={error} retry={() => void reload()} />}
      {data === null ? missing : children(data)}
    </>
  )
}

/** A plan that is read each time its dialog opens: `load` reads it, and `shown` shows it, or why it is not there. */
export function usePlan<A>(read: () => Promise<A>) {
  const [state, setState] = useState<A | RequestError | null>(null)
  const load = () => {
    setState(null)
    read().then(setState, (error: unknown) => setState(toError(error)))
  }
  const plan = state instanceof RequestError ? null : state
  const shown = (show: (plan: A) => ComponentChildren) =>
    state instanceof RequestError
      ? <Failure error={state} retry={load} />
      : state === null
      ? <Loading />
      : show(state)
  return { load, plan, shown }
}
