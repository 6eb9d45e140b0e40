/** The frame of the console: navigation, the state of the connection, and the page of the current path. */
import { type ComponentType, render } from "preact"
import { useEffect } from "preact/hooks"
import { isSignedIn, mayOperate, version } from "./Client.ts"
import { number, plural, sentence, since, time } from "./Format.ts"
import { clock, connection, isPaused, overview, problem, serverNow, start, togglePause } from "./Live.ts"
import { AuditPage } from "./pages/Audit.tsx"
import { DeadLetterPage } from "./pages/DeadLetter.tsx"
import { DeadLettersPage } from "./pages/DeadLetters.tsx"
import { EventPage } from "./pages/Event.tsx"
import { EventsPage } from "./pages/Events.tsx"
import { GlossaryPage } from "./pages/Glossary.tsx"
import { HoldPage, HoldsPage } from "./pages/Holds.tsx"
import { IntegrationPage, IntegrationsPage } from "./pages/Integrations.tsx"
import { OverviewPage } from "./pages/Overview.tsx"
import { PluginPage, PluginsPage } from "./pages/Plugins.tsx"
import { ProcessesPage } from "./pages/Processes.tsx"
import { StreamPage } from "./pages/Stream.tsx"
import { StreamsPage } from "./pages/Streams.tsx"
import { Empty, Title } from "./parts/Basics.tsx"
import { outcome } from "./parts/Command.tsx"
import { address } from "./Router.ts"

type Parameters = ReadonlyArray<string>
export type Page = ComponentType<{ readonly parameters: Parameters }>

const routes: ReadonlyArray<readonly [pattern: RegExp, page: Page]> = [
  [/^\/$/, OverviewPage],
  [/^\/streams$/, StreamsPage],
  [/^\/streams\/([^/]+)\/([^/]+)$/, StreamPage],
  [/^\/integrations$/, IntegrationsPage],
  [/^\/integrations\/([^/]+)$/, IntegrationPage],
  [/^\/events$/, EventsPage],
  [/^\/events\/([^/]+)$/, EventPage],
  [/^\/holds$/, HoldsPage],
  [/^\/holds\/([^/]+)$/, HoldPage],
  [/^\/plugins$/, PluginsPage],
  [/^\/plugins\/([^/]+)$/, PluginPage],
  [/^\/dead-letters$/, DeadLettersPage],
  [/^\/dead-letters\/([^/]+)$/, DeadLetterPage],
  [/^\/processes$/, ProcessesPage],
  [/^\/audit$/, AuditPage],
  [/^\/glossary$/, GlossaryPage]
]

/** Path and label. */
const links = [
  ["/", "Overview"],
  ["/integrations", "Integrations"],
  ["/streams", "Streams"],
  ["/events", "Events"],
  ["/holds", "Holds"],
  ["/plugins", "Plugins"],
  ["/dead-letters", "Dead letters"],
  ["/processes", "Processes"],
  ["/audit", "Audit log"]
] as const

const NotFound: Page = () => (
  <>
    <Title text="Page not found" />
    <Empty>
      The console has no page at <code>{address.value.pathname}</code>. <a href="/">Open the overview</a>
    </Empty>
  </>
)

const isCurrent = (path: string): boolean => {
  const { pathname } = address.value
  return path === "/" ? pathname === "/" : pathname === path || pathname.startsWith(`${path}/`)
}

/** The number on the badge of a page: the items that the page lists first, or alone. */
const counts = (path: string): number => {
  const state = overview.value
  if (state === null) return 0
  if (path === "/") return state.matters.length + state.omitted
  return { "/holds": state.open_holds, "/plugins": state.open_circuits, "/dead-letters": state.dead_letters }[path] ?? 0
}

const Navigation = () => (
  <nav aria-label="Pages">
    <ul>
      {links.map(([path, label]) => {
        const count = counts(path)
        return (
          <li key={path}>
            <a href={path} aria-current={isCurrent(path) ? "page" : undefined}>
              {label}
              {count === 0 ? null : <span class="count" title={`${count} to look at`}>{number(count)}</span>}
            </a>
          </li>
        )
      })}
    </ul>
  </nav>
)

const ConnectionState = () => {
  const state = overview.value
  const isOld = isPaused.value || connection.value === "lost"
  const text = isPaused.value
    ? "Paused"
    : connection.value === "lost"
    ? "Not connected"
    : connection.value === "connecting"
    ? "Connecting…"
    : "Live"
  return (
    <div class="connection">
      <span>
        <span class={`dot ${isOld ? "warn" : "good"}`} aria-hidden="true" />
        <span role="status">{text}</span>
        {isOld && state !== null
          ? `, ${isPaused.value ? "as of" : "last contact"} ${since(state.as_of, serverNow.value)} ago`
          : null}
      </span>
      <button type="button" class="small" aria-pressed={isPaused.value} onClick={togglePause}>
        {isPaused.value ? "Resume updates" : "Pause updates"}
      </button>
    </div>
  )
}

const Outage = () => {
  const state = overview.value
  return state === null || state.outage === null ? null : (
    <div class="notice bad outage" role="alert">
      <p>
        <strong>{state.outage.title}.</strong> {sentence(state.outage.cause)}
      </p>
    </div>
  )
}

/** The text does not change while the connection is lost, so a screen reader says it once. */
const Stale = () => {
  const state = overview.value
  const { message, hint } = problem.value ?? { message: "The connection has ended.", hint: null }
  return (
    <div role="status">
      {connection.value !== "lost" ? null : (
        <div class="notice bad outage">
          <p>
            <strong>Not connected: {message}</strong> {hint}{" "}
            {state === null ? "" : `The page shows the state of ${time(state.as_of)} UTC. `}
            The console tries again by itself.
          </p>
        </div>
      )}
    </div>
  )
}

const Console = () => {
  const { pathname } = address.value
  useEffect(() => {
    outcome.value = null
  }, [pathname])
  const found = routes.flatMap(([pattern, page]) => {
    const match = pattern.exec(pathname)
    return match === null ? [] : [{ page, parameters: match.slice(1).map(decodeURIComponent) }]
  })[0]
  const Current = found?.page ?? NotFound
  const silent = overview.value?.processes.silent ?? 0
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={() => document.getElementById("main")?.focus()}>Skip to the content</a>
      <header class="top">
        <a class="brand" href="/">Rollcall</a>
        <Navigation />
        <ConnectionState />
        <div class="foot">
          <p>
            {version}, times in UTC{silent === 0 ? null : `, ${plural(silent, "process", "processes")} silent`}
          </p>
          {mayOperate ? null : <p>Read only: the token allows no commands</p>}
          <p>
            <a href="/glossary">Glossary</a> · <a href="/docs" data-outside>API</a> ·{" "}
            <a href="/console/licenses.txt" data-outside>Licenses</a>
          </p>
          {isSignedIn
            ? (
              <form method="post" action="/logout">
                <button class="small">Sign out</button>
                <button class="small" formAction="/logout/everywhere">Sign out everywhere</button>
              </form>
            )
            : null}
        </div>
      </header>
      <main id="main" tabIndex={-1} class={connection.value === "lost" ? "old" : ""}>
        <Stale />
        <Outage />
        <div class="outcome" role="status">
          {outcome.value === null ? null : <p class={`notice ${outcome.value.tone}`}>{outcome.value.text}</p>}
        </div>
        <Current key={pathname} parameters={found?.parameters ?? []} />
      </main>
    </div>
  )
}

start()
const root = document.getElementById("console")
if (root !== null) {
  root.replaceChildren()
  render(<Console />, root)
}
// a page that was restored after a while shows the current time at once
addEventListener("pageshow", () => clock.value = Date.now())
