/**
 * What the oracle knows of the plugins' writes: each is to be told as their own, once, and nothing else is.
 *
 * Gotchas
 * - Nobody but plugins tags a candidate or refers a friend: whose change that is, is known without looking at any diff.
 * - An old copy of an application shows tags as they were. Only the first time that a record comes to show a write counts.
 *   It may show one that is under way as done: whose that is, nobody can say.
 */
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import { introduced, tag } from "../service/Plugins.ts"
import type { WriteEffect } from "../world/FaultyApi.ts"

interface Cause {
  readonly plugin: string
  readonly depth: number
  readonly paths: ReadonlyArray<string>
}

interface Write extends WriteEffect {
  /** Sweeps of the applications that were complete by then. */
  readonly sweeps: number
  /** Applications that showed it. */
  readonly shown: Set<string>
}

const authors = { addTag: "adder", removeTag: "remover" } as const
const authorOf = ({ email, write }: WriteEffect): string =>
  email === null ? authors[write as keyof typeof authors] : email.endsWith(introduced) ? "introducer" : "referrer"
const tagPath = `/candidate/tags/t-${tag}`

/** Plugins in a row: four, and the one whose write nobody may answer any more. */
const maxDepth = 5
/** So many sweeps that did not show it, and a write is no longer waited for. */
const maxSweepsWaited = 2

export class Echoes {
  readonly #writes: Array<Write> = []
  readonly #sweeps = new Map<string, number>()

  /** Gives what is wrong with it. */
  writeTookEffect(effect: WriteEffect): ReadonlyArray<string> {
    const doubled = effect.email !== null && this.#writes.some(({ email }) => email === effect.email)
    this.#writes.push({ ...effect, sweeps: this.#sweeps.get(effect.integration) ?? 0, shown: new Set() })
    return doubled ? [`${effect.email} was referred twice`] : []
  }

  /** A sweep of the integration's applications is complete. */
  swept(integration: string): void {
    this.#sweeps.set(integration, (this.#sweeps.get(integration) ?? 0) + 1)
  }

  /** Gives what is wrong with what is said of an event's cause. */
  checkCause(integration: string, event: NewEvent, isBack: boolean): ReadonlyArray<string> {
    const cause: Cause | null = event.cause === null ? null : JSON.parse(event.cause)
    const changes: ReadonlyArray<{ path: string; before: unknown }> = JSON.parse(event.changes)
    const tagged = changes.find(({ path }) => path === tagPath)
    const wrong: Array<string> = []
    if (cause !== null && (cause.depth < 1 || cause.depth > maxDepth)) wrong.push(`depth ${cause.depth}`)
    const write = event.kind === "created"
      ? this.#last(integration, "createApplication", event.id)
      : tagged === undefined || event.after === null
      ? undefined
      : this.#last(integration, tagged.before === null ? "addTag" : "removeTag", candidateOf(event.after))
    if (write === undefined) return cause === null || isBack ? wrong : [...wrong, `is nobody's, told as ${event.cause}`]
    const isFirst = !write.shown.has(event.id)
    write.shown.add(event.id)
    const waitedFor = (this.#sweeps.get(integration) ?? 0) - write.sweeps < maxSweepsWaited
    const paths = event.kind === "created" ? "" : tagPath
    // the answer that named it may be lost, and then nothing is left to know it by
    const isBlank = write.email !== null && event.after?.includes(write.email) !== true
    const isRight = cause !== null && cause.plugin === authorOf(write) && cause.paths.join() === paths
    if (!isRight && (cause !== null || (isFirst && waitedFor && !isBlank))) {
      wrong.push(`is a ${write.write}, told as ${event.cause ?? "nobody's"}`)
    }
    return wrong
  }

  #last(integration: string, write: WriteEffect["write"], id: string | null): Write | undefined {
    return this.#writes.findLast((one) => one.integration === integration && one.write === write && one.id === id)
  }
}

const candidateOf = (after: string): string | null => {
  const { candidate }: { candidate: { readonly id?: unknown } | null } = JSON.parse(after)
  return typeof candidate?.id === "string" ? candidate.id : null
}
