/**
 * Makes the names of topics from a topic template.
 *
 * Invariants
 * 1. With `{integration}` in the template, no two integrations share a topic
 * 2. No stream's topic has the name of an internal topic
 */
import type { StreamKey } from "../../domain/Model.ts"

const placeholders = /\{([^}]*)\}/g

/** Describes the mistake in a topic template; null if the template is valid. */
export const findTemplateError = (template: string): string | null => {
  for (const [text, name] of template.matchAll(placeholders)) {
    if (name !== "model" && name !== "integration") {
      return `the topic template contains ${text}; only {model} and {integration} are allowed`
    }
  }
  const fixed = template.replaceAll(placeholders, "")
  return /^[A-Za-z0-9._-]*$/.test(fixed) && template !== ""
    ? null
    : "the topic template is empty, or contains characters other than letters, digits, '.', '_' and '-'"
}

/** Keeps letters, digits, `.` and `-`; any other byte becomes `_` and two hex digits, so that no two ids share a topic. */
const escapeIntegration = (integration: string): string =>
  integration.replaceAll(
    /[^A-Za-z0-9.-]/gu,
    (character) => Array.from(Buffer.from(character), (byte) => `_${byte.toString(16).padStart(2, "0")}`).join("")
  )

/** The topic of a stream's events. */
export const topicOf = (template: string, stream: StreamKey): string =>
  template.replaceAll("{model}", stream.model).replaceAll("{integration}", () => escapeIntegration(stream.integration))

/**
 * The name of one of Rollcall's internal topics for a template: `{model}` becomes `name`, `{integration}` becomes `_`, and a
 * template without `{model}` gets `._<name>` appended. No stream's topic can have such a name: no model is called `progress` or
 * `relay`, and an escaped integration has two hex digits after every `_`.
 */
const ownTopicOf = (template: string, name: "progress" | "relay"): string =>
  (template.includes("{model}") ? template.replaceAll("{model}", name) : `${template}._${name}`)
    .replaceAll("{integration}", "_")

/** The topic with the progress of every stream: `rollcall.progress` for `rollcall.{model}`. */
export const progressTopicOf = (template: string): string => ownTopicOf(template, "progress")

/** The topic with the relay's checkpoints: `rollcall.relay` for `rollcall.{model}`. */
export const controlTopicOf = (template: string): string => ownTopicOf(template, "relay")

/** The compacted topic with the latest content of a stream's records. */
export const stateTopicOf = (template: string, stream: StreamKey): string => `${topicOf(template, stream)}.state`
