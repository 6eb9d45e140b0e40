/**
 * Masks the API's free text for logs and errors: keeps the words of a fixed list, which describe the problem, and drops
 * everything else, because it may identify a person   (I11).
 *
 * Invariants
 * 1. Only the words of the list and of the titles that the API is known to have, codes made of these words, the codes that the API publishes,
 *    and punctuation pass
 *
 * Gotchas
 * - The list has the permitted words, because names of people and companies cannot be recognized: many are written in lower case. Words
 *   that are also common names or a personal detail (`will`, `may`, `grant`, `mark`, `sick`, `pregnant`) are left out.
 * - A capital passes only in the first word of a sentence, and only in words that are not names: `Page` and `Day` are also surnames.
 * - Codes such as `PLATFORM.INPUT_INVALID` pass; their separator distinguishes them from names in capitals.
 */
import { errorCodes, knownError } from "../api/ErrorClassification.ts"

/** What APIs say about requests, permissions, limits and fields. */
const wordList = `
  a about above absent accept accepted access account accounts action actions active add added address after again all allow
  allowed already also always an and another answer any api app application applications are array as assessment at attempt
  attempts attribute attributes authentication authorization authorized automatically available back bad batch be because been
  before being below between body both but by call called calls can candidate candidates cannot change changed changes check
  checks choose client closed code complete completed concurrency conflict configuration configured connect connected
  connection contact contain contains content could count create created creating credentials currently cursor custom cut data
  date dates day days default delayed delete deleted deprecated did different disabled disconnected do does done down dropped
  duplicate each early either else email empty enable enabled endpoint endpoints enough entity entries entry environment error
  errors even every exceed exceeded exceeds exist existing exists expected expire expired external failed failing failure fetch
  field fields file files filter filters finished first following for forbidden form format found from full further gateway
  get given greater had has have header headers hour hours id identifier identifiers if ignored import in inactive incomplete
  incorrect information input insufficient integration integrations internal interval into invalid is it item items its job
  jobs json just key keys large last later least length less limit limited limits link linked list lists load loaded locked
  longer made maintenance many match matches matching maximum memory message method minimum minute minutes missing model models
  modified more most moved multiple must name names need needed needs network never new next no none not nothing now null
  number object objects of off offer offered offers offset old on once one only open operation option optional or order other
  our out outdated over own page pages paging parameter parameters partial partially passed passes path paths pending per
  permission permissions permitted phone plan platform please policy possible present previous problem process processed
  processing property provide provided provider query queue quota rate read reading reason received record records refresh
  refused refuses rejected release remote removed renamed request requested requests require required requires resource
  response responses result results retry returned returns revoked role row rows run running same schema scope scopes second
  seconds see select selected send sent server service session set sets setting settings setup should shown side since site
  size skipped slow so some something source state status step still stopped stored string supplied support supported supports
  switched sync synced synchronization synchronisation system tag tags take takes task team temporarily temporary than that the
  their them then there these they third this those through time timed timeout times to token tokens too took tool tools
  transferred translated trial truncated try twice type types unauthorized unavailable unchanged unexpected unique unknown
  unreachable unsupported until up update updated updates updating upstream url use used user using valid validation value
  values version wait waiting want wants was way we webhook were what when where which while with within without write wrong
  yet you your zero
`

/** Words that begin the titles of errors. */
const openers = `
  access action authentication authorization bad cannot connection cursor duplicate endpoint failed forbidden input
  insufficient integration internal invalid missing model not permission please rate request required resource response
  unauthorized unavailable unexpected unknown unsupported validation you your
`
const acronyms: ReadonlySet<string> = new Set(["API", "HTTP", "JSON", "URL"])

const wordsOf = (text: string): ReadonlyArray<string> => text.trim().toLowerCase().split(/\s+/)
const titles: ReadonlySet<string> = new Set(Object.values(errorCodes).map(([, , title]) => title))
const plainWords: ReadonlySet<string> = new Set([...wordsOf(wordList), ...[...titles].flatMap(wordsOf)])
const openingWords: ReadonlySet<string> = new Set([
  ...wordsOf(openers),
  ...[...titles].flatMap((title) => wordsOf(title).slice(0, 1))
])

const placeholder = "…"
const maxLength = 200
const codePattern = /^[A-Z]+(?:[._][A-Z]+)+$/
const wordPattern = /^[a-z]+(?:[-_'][a-z]+)*$/

const isPlain = (word: string): boolean =>
  acronyms.has(word) || (wordPattern.test(word) || codePattern.test(word)) &&
    word.toLowerCase().split(/[-_'.]/).every((part) => plainWords.has(part))

const isOpening = (word: string): boolean => /^[A-Z][a-z]+$/.test(word) && openingWords.has(word.toLowerCase())

const maskWord = (word: string, index: number, words: ReadonlyArray<string>): string => {
  const [, before = "", core = "", after = ""] = /^([([]*)(.*?)([)\],.:;!?]*)$/.exec(word) ?? []
  const isFirst = index === 0 || /[.!?]$/.test(words[index - 1] ?? "")
  return core === "" || isPlain(core) || (isFirst && isOpening(core)) ? word : `${before}${placeholder}${after}`
}

/** A known title, or at most 200 characters of known words, codes and punctuation; each stretch of other text becomes one `…`. */
export const mask = (text: string): string =>
  titles.has(text) ? text : text
    .slice(0, 4 * maxLength)
    .replace(/"[^"]*("|$)|`[^`]*(`|$)|[“«„][^”»“]*([”»“]|$)|'[^']*'/g, placeholder)
    .split(/\s+/)
    .map(maskWord)
    .join(" ")
    .replace(/…(?:\s+…)+/g, placeholder)
    .trim()
    .slice(0, maxLength)

/**
 * The title of an error. The known title of its code takes the place of one that is missing, or that has words which are masked. Null if there
 * is none.
 */
export const titleOf = (code: string | null, title: unknown): string | null => {
  const known = knownError(code)?.title ?? null
  if (typeof title !== "string" || title === "") return known
  const masked = mask(title)
  return masked.includes(placeholder) ? known ?? masked : masked
}

const longestUrl = 300

/** The value if it is an https URL without a login, of visible ASCII and at most 300 characters; else null. */
export const logUrlOf = (value: unknown): string | null => {
  const url = typeof value === "string" && /^https:[!-~]{1,300}$/i.test(value) ? URL.parse(value) : null
  return url === null || url.username !== "" || url.password !== "" || url.href.length > longestUrl ? null : url.href
}

/** The value if it is a code that the API publishes, or a code made of known words, else null: the field may contain free text. */
export const codeOf = (value: unknown): string | null =>
  typeof value === "string" &&
    (knownError(value) !== undefined || (value.length <= maxLength && codePattern.test(value) && isPlain(value)))
    ? value
    : null
