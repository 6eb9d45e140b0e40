/**
 * The plugins' writes that the oracle knows: each must be published as the plugin's own change, once, and no other change may be.
 *
 * Gotchas
 * - Only plugins tag candidates or refer friends, so the author of such a change is known without a diff.
 * - An old copy of an application shows old tags. Only the first event in which a record shows a write counts.
 *   An old copy may show a write in progress as done; the author of that event is uncertain.
 */
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import { introduced, tag } from "../service/Plugins.ts"
import type { WriteEffect } from "../world/PluginWrites.ts"

interface Cause {
  readonly plugin: string
  readonly depth: number
  readonly paths: ReadonlyArray<string>
}

interface Write extends WriteEffect {
  /** Completed sweeps of the applications when the write took effect. */
  readonly sweeps: number
  /** Applications that showed the write. */
  readonly shown: Set<string>
}

const authors = { addTag: "adder", removeTag: "remover" } as const
/** Undefined if no plugin declares the write. */
const authorOf = ({ email, write }: WriteEffect): string | undefined =>
  email === null ? authors[write as keyof typeof authors] : email.endsWith(introduced) ? "introducer" : "referrer"
const tagPath = `/candidate/tags/t-${tag}`

/** Writes in a row: four, and the fifth, to which no plugin may react. */
const maxDepth = 5
/** After this many sweeps that did not show it, a write is no longer expected. */
const maxSweepsWaited = 2

export class Echoes {
  readonly #writes: Array<Write> = []
  readonly #sweeps = new Map<string, number>()

  /** Returns the problems with a write. */
  writeTookEffect(effect: WriteEffect): ReadonlyArray<string> {
    const doubled = effect.email !== null && this.#writes.some(({ email }) => email === effect.email)
    this.#writes.push({ ...effect, sweeps: this.#sweeps.get(effect.integration) ?? 0, shown: new Set() })
    return doubled
      ? [`${effect.email} was referred twice`]
      : authorOf(effect) === undefined
      ? [`${effect.write} was sent, but no plugin declares it`]
      : []
  }

  /** Called when a sweep of the integration's applications is complete. */
  swept(integration: string): void {
    this.#sweeps.set(integration, (this.#sweeps.get(integration) ?? 0) + 1)
  }

  /** Returns the problems with the cause of an event. */
  checkCause(integration: string, event: NewEvent, isBack: boolean): ReadonlyArray<string> {
    const cause: Cause | null = event.cause === null ? null : JSON.parse(event.cause)
    const changes: ReadonlyArray<{ path: string; before: unknown }> = JSON.parse(event.changes)
    const tagged = changes.find(({ path }) => path === tagPath)
    const problems: Array<string> = []
    if (cause !== null && (cause.depth < 1 || cause.depth > maxDepth)) problems.push(`depth ${cause.depth}`)
    const write = event.kind === "created"
      ? this.#last(integration, "createApplication", event.id)
      : tagged === undefined || event.after === null
      ? undefined
      : this.#last(integration, tagged.before === null ? "addTag" : "removeTag", candidateOf(event.after))
    if (write === undefined) {
      return cause === null || isBack
        ? problems
        : [...problems, `has no author, but was published with the cause ${event.cause}`]
    }
    const isFirst = !write.shown.has(event.id)
    write.shown.add(event.id)
    const waitedFor = (this.#sweeps.get(integration) ?? 0) - write.sweeps < maxSweepsWaited
    const paths = event.kind === "created" ? "" : tagPath
    // The response with the id may be lost, and then nothing else identifies the write.
    const isUnidentifiable = write.email !== null && event.after?.includes(write.email) !== true
    const isRight = cause !== null && cause.plugin === authorOf(write) && cause.paths.join() === paths
    if (!isRight && (cause !== null || (isFirst && waitedFor && !isUnidentifiable))) {
      problems.push(`is a ${write.write}, but was published with the cause ${event.cause ?? "null"}`)
    }
    return problems
  }

  #last(integration: string, write: WriteEffect["write"], id: string | null): Write | undefined {
    return this.#writes.findLast((one) => one.integration === integration && one.write === write && one.id === id)
  }
}

const candidateOf = (after: string): string | null => {
  const { candidate }: { candidate: { readonly id?: unknown } | null } = JSON.parse(after)
  return typeof candidate?.id === "string" ? candidate.id : null
}
