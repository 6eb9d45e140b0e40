/**
 * Phrases that keep a reader from understanding a sentence at once, each with what to write instead. `Prose.test.ts` searches
 * every source file, test, template and docs page for them.
 *
 * Gotchas
 * - The search ignores line breaks, so a phrase that is wrapped in a comment is found too.
 * - It reads code as well: an identifier with one of these words is as unclear as a sentence.
 */

export interface Idiom {
  readonly pattern: RegExp
  readonly instead: string
}

/** At the beginning of a sentence, a list item, a comment or a string. */
const opening = String.raw`(?<=^|[.;:!?]\s+|/\*\*\s+|//\s+|["\x60]|\n\s*[-*]\s+)`

export const idioms: ReadonlyArray<Idiom> = [
  {
    pattern: /\bnobody('s)?\b/gi,
    instead: "name the subject: no process, no reader, no operator; or turn the sentence round"
  },
  { pattern: /\b(whom|whomever|whoever)\b/gi, instead: "name the person or the thing" },
  { pattern: /\btold\b/gi, instead: "reported, notified, configured" },
  { pattern: /\b(owe|owed|owes|owing)\b/gi, instead: "stale, due, waiting" },
  { pattern: /\b(forgive|forgiven|forgave)\b/gi, instead: "cleared, dropped" },
  { pattern: /\banew\b/gi, instead: "again" },
  {
    pattern: /\balso (if|when|after (an?|the|restarts?|outages?)|over (a )?restarts?)\b/gi,
    instead: "even if, even after"
  },
  {
    pattern: /\b(no|not|none|nothing|never|cannot)\b[^.;:\n]{0,80}\bany more\b/gi,
    instead: "no longer"
  },
  { pattern: /\bone (after|by) the other\b/gi, instead: "one after another, one at a time" },
  { pattern: /\bin vain\b/gi, instead: "name the result: it failed, it is read again" },
  {
    pattern:
      /(?<!\b(because|instead|regardless|ahead|independent|independently|out|top|front|outside|inside|each|all|both|most|some|any|none|part|rest|half) )\bof it\b/gi,
    instead: "name the thing"
  },
  { pattern: /\b(became|become|becomes|came|comes) of\b/gi, instead: "the outcome is unknown; the result is" },
  { pattern: /\b(is|are|was|were|be|been) (said|spoken of)\b/gi, instead: "reported, set, configured" },
  { pattern: /\bas said\b|\bthat is said\b|\bis said to\b/gi, instead: "as described in" },
  {
    pattern: /(?<!\bthere )\b(is|are|was|were) no (?!longer\b|more than\b|less\b|other\b|one\b)[a-z]+\b/gi,
    instead: "is not a …"
  },
  { pattern: /\bstands? (in|at|there|still|on|behind|before|under|above|below|next)\b/gi, instead: "is in, is at" },
  {
    pattern: new RegExp(`${opening}Who (?!is\\b|are\\b)[a-z]+[^?\\n]{0,200}?[.;:,\\n]`, "g"),
    instead: "name the reader, process or handler that does it"
  },
  { pattern: new RegExp(`${opening}Whose `, "g"), instead: "name the owner" },
  {
    pattern: new RegExp(`${opening}What (?!to\\b|if\\b|is new\\b|changed\\b|happens\\b)(?![^.?!\\n]*\\?)[a-z]+ `, "g"),
    instead: "name the thing: the record, the request, the state"
  },
  {
    pattern: /\b(store|database|broker|kafka|api|server|sink|postgresql|it) (is|was|are|were) away\b/gi,
    instead: "is unavailable"
  },
  { pattern: /\bhas? begun\b|\b(is|was|were|are) begun\b/gi, instead: "has started, is started" },
  {
    pattern: /\bone and the same\b|\bthe like\b|\ball the same\b|\bonce and for all\b/gi,
    instead: "the same; nevertheless; leave it out"
  },
  { pattern: /\bthere is no such thing\b/gi, instead: "not found" },
  {
    pattern: /\bHow often (?!(do|does|did|is|are|should|can)\b)/g,
    instead: "how many times, the number of, the interval"
  },
  { pattern: /\bfor so long\b/gi, instead: "for this time" },
  { pattern: /[;,.] (null|undefined) = (?=[a-z])/g, instead: "null if" },
  { pattern: /, ms(?=[.:;]| \*\/)/g, instead: "in ms" },
  { pattern: /\basks? the (store|database)\b/gi, instead: "queries" },
  {
    pattern: /\b(sessions?|streams?|sweeps?|runs?|polls?|attempts?|deliver(y|ies)|transactions?|steps?) began\b/gi,
    instead: "started"
  },
  { pattern: /\b(thereby|therein|thereof|thereupon|whereupon|wherein|hence)\b/gi, instead: "so, then, in which" }
]

export interface Found {
  readonly line: number
  readonly phrase: string
  readonly instead: string
}

/** The line breaks of a comment or a paragraph become spaces of the same length, so that offsets stay. */
const unwrapped = (text: string): string =>
  text.replace(
    /\n[ \t]*(\*(?!\/)|\/\/)(?![ \t]*[-*\n])|(?<=[a-z,;]) *\n {0,2}(?=[a-z])/g,
    (wrap) => " ".repeat(wrap.length)
  )

/** Each space of a pattern also matches the spaces of a wrapped line. */
const patterns = idioms.map(({ instead, pattern }) => ({
  instead,
  pattern: new RegExp(pattern.source.replaceAll(" ", " +"), pattern.flags)
}))

export const scan = (text: string): ReadonlyArray<Found> => {
  const flat = unwrapped(text)
  return patterns.flatMap(({ instead, pattern }) =>
    Array.from(flat.matchAll(pattern), ({ 0: phrase, index }) => ({
      line: text.slice(0, index).split("\n").length,
      phrase: phrase.trim().replace(/\s+/g, " "),
      instead
    }))
  ).sort((a, b) => a.line - b.line)
}
