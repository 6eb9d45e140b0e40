/** Small parts of every page. */
import type { ComponentChildren } from "preact"
import { useEffect, useRef } from "preact/hooks"
import type { RequestError } from "../Client.ts"
import { since, time } from "../Format.ts"
import { serverNow } from "../Live.ts"
import { moves } from "../Router.ts"

interface Children {
  readonly children: ComponentChildren
}

/** The heading of a page. It is focused when the user comes from another page, so that a screen reader says where they are. */
export const Title = ({ children, text }: { readonly text: string; readonly children?: ComponentChildren }) => {
  const heading = useRef<HTMLHeadingElement>(null)
  const move = moves.value
  useEffect(() => {
    document.title = `${text} · Rollcall`
  }, [text])
  useEffect(() => {
    if (move > 0) heading.current?.focus({ preventScroll: true })
  }, [move])
  return (
    <header class="title">
      <h1 ref={heading} tabIndex={-1}>
        <Breakable text={text} />
      </h1>
      {children}
    </header>
  )
}

export type Tone = "bad" | "warn" | "good" | "plain"

/** A state in one word; the color repeats what the word says. */
export const Badge = ({ children, tone }: Children & { readonly tone: Tone }) => (
  <span class={`badge ${tone}`}>{children}</span>
)

/** How long ago, with the time in UTC as its title. */
export const Since = ({ at, suffix = "" }: { readonly at: string | null; readonly suffix?: string }) =>
  at === null ?
    <span class="quiet">–</span> :
    <time dateTime={at} title={`${time(at)} UTC`}>{since(at, serverNow.value)}{suffix}</time>

export const At = ({ at }: { readonly at: string | null }) =>
  at === null ? <span class="quiet">–</span> : <time dateTime={at} title={`${at} (UTC)`}>{time(at)}</time>

/** Where a long name in the text does not fit, it breaks after a mark and not within a word. */
export const Breakable = ({ text }: { readonly text: string }) => (
  <>
    {text.split(/(?<=[._/:])(?=\S)/).flatMap((part, index) => index === 0 ? [part] : [<wbr key={index} />, part])}
  </>
)

export const StreamName = ({ integration, model }: { readonly integration: string; readonly model: string }) => (
  <Breakable text={`${integration}/${model}`} />
)

export const Loading = () => <p class="quiet" role="status">Loading…</p>

export const Empty = ({ children }: Children) => <p class="empty">{children}</p>

export const Failure = ({ error, retry }: { readonly error: RequestError; readonly retry?: () => void }) => (
  <div class="notice bad" role="alert">
    <p>
      <strong>{error.message}</strong> {error.hint}
    </p>
    {retry === undefined ? null : <button type="button" onClick={retry}>Try again</button>}
  </div>
)

const meanings = new Map(GLOSSARY.flatMap(([words, meaning]) => words.split(", ").map((word) => [word, meaning])))

/** The meaning of a heading that is a word of the glossary, such as `Stale records` or `Dead letters`. */
export const meaningOf = (heading: string): string | undefined => {
  const words = heading.toLowerCase().replace(/s$/, "")
  return meanings.get(words) ?? meanings.get(heading.toLowerCase()) ??
    meanings.get(words.replace(/ (record|of the).*$/, ""))
}

/** Terms with their values. */
export const Facts = ({ children }: Children) => <dl class="facts">{children}</dl>

export const Fact = ({ children, name }: Children & { readonly name: string }) => (
  <div>
    <dt title={meaningOf(name)}>{name}</dt>
    <dd>{children}</dd>
  </div>
)

export const Section = ({ children, id, title }: Children & { readonly title: string; readonly id: string }) => (
  <section aria-labelledby={id}>
    <h2 id={id}>{title}</h2>
    {children}
  </section>
)

/** A wide table scrolls by itself on a narrow screen; the keyboard can scroll it too. */
export const Scroll = ({ children, label }: Children & { readonly label: string }) => (
  <div class="scroll" role="region" aria-label={`${label}, table`} tabIndex={0}>{children}</div>
)
