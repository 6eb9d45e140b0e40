/** The address of the page: filters and pages are in the URL, so that a link shows the same to a colleague. */
import { signal } from "@preact/signals"

/** The path with its query. */
const here = (): URL => new URL(location.href)

export const address = signal(here())

/** Number of times that the user has moved to another page. The heading is focused then. */
export const moves = signal(0)

const update = (): void => {
  address.value = here()
}

addEventListener("popstate", () => {
  update()
  moves.value += 1
})

/** Opens a path of the console. */
const navigate = (path: string): void => {
  history.pushState(null, "", path)
  update()
  moves.value += 1
  scrollTo(0, 0)
}

export const parameter = (name: string): string => address.value.searchParams.get(name) ?? ""

/** How many rows a page of a list has: `limit` in the address, or the default of the list. */
export const limitOr = (rows: number): number => {
  const given = Number(parameter("limit"))
  return given > 0 ? given : rows
}

/** Changes parameters of the query; an empty value removes one. The back button skips these changes. */
export const setParameters = (values: Readonly<Record<string, string>>): void => {
  const url = here()
  for (const [name, value] of Object.entries(values)) {
    if (value === "") url.searchParams.delete(name)
    else url.searchParams.set(name, value)
  }
  history.replaceState(null, "", url)
  update()
}

/** `?` and the parameters that have a value; "" without any. */
export const queryOf = (values: Readonly<Record<string, string | number>>): string => {
  const given = Object.entries(values).flatMap(([name, value]) => value === "" ? [] : [[name, String(value)]])
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`
}

export const streamPath = (integration: string, model: string): string =>
  `/streams/${encodeURIComponent(integration)}/${encodeURIComponent(model)}`

/** Links within the console do not load the page again. */
document.addEventListener("click", (event) => {
  if (
    event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey
  ) {
    return
  }
  const link = event.target instanceof Element ? event.target.closest("a") : null
  if (link === null || link.target !== "" || link.origin !== location.origin || link.dataset["outside"] !== undefined) {
    return
  }
  event.preventDefault()
  if (link.hash !== "" && link.pathname === location.pathname) return
  navigate(`${link.pathname}${link.search}`)
})
