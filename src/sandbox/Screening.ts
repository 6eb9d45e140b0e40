/**
 * The screening questions of applications: hides which are asked, and how a given answer is shown.
 *
 * Gotchas
 * - No endpoint lists questions, so a client may know some that are not asked here: their answers are kept, with a warning.
 * - Every question stands there seven times, under ids of its own, as with systems that copy them for each job.
 */
import * as Result from "effect/Result"
import type { CreateApplication } from "../api/Recruiting.ts"
import type { Chance } from "./Chance.ts"
import * as Lexicon from "./Lexicon.ts"
import type { Json } from "./Records.ts"
import { invalid, type Refusal } from "./Refusal.ts"

const copies = 7
const questions = {
  start: { title: "When could you start?", type: "SINGLE_SELECT" },
  why: { title: "Why do you want to work here?", type: "TEXT" },
  days: { title: "On which days could you work?", type: "MULTI_SELECT" }
} as const

const questionOf = (name: keyof typeof questions, copy: number) => ({
  remote_id: `q-${name}-${copy % copies}`,
  ...questions[name]
})

/** What an applicant of the invented organisation answered. */
export const drawnAnswers = (serial: number, chance: Chance): Json => [
  {
    answer: { choice: chance.pick(["Immediately", "In one month", "In three months"]) },
    question: questionOf("start", serial)
  },
  { answer: { content: chance.pick(Lexicon.reviewComments) }, question: questionOf("why", serial) },
  ...(serial % 3 === 0 ? [{ answer: { choices: ["weekdays"] }, question: questionOf("days", serial) }] : [])
]

const known = new Map(
  (Object.keys(questions) as ReadonlyArray<keyof typeof questions>).flatMap((name) =>
    Array.from({ length: copies }, (_, copy) => questionOf(name, copy)).map((asked) =>
      [asked.remote_id, asked] as const
    )
  )
)

type Given = NonNullable<CreateApplication["screening_question_answers"]>

/** The answers as applications show them, and what is to be said about them: several values are the option ids of a multi-select question. */
export const givenAnswers = (
  answers: Given
): Result.Result<{ readonly shown: ReadonlyArray<Json>; readonly warnings: ReadonlyArray<string> }, Refusal> => {
  const warnings: Array<string> = []
  const shown: Array<Json> = []
  for (const [i, { answer, question_id }] of answers.entries()) {
    const asked = known.get(question_id)
    const several = typeof answer !== "string"
    if (asked !== undefined && several !== (asked.type === "MULTI_SELECT")) {
      const wanted = several ? "takes one answer" : "takes an array of option ids"
      return Result.fail(invalid(`screening_question_answers/${i}/answer: the question ${wanted}.`))
    }
    if (asked === undefined) warnings.push(`No screening question has the id "${question_id}"; the answer was kept.`)
    const type = asked?.type ?? (several ? "MULTI_SELECT" : "TEXT")
    shown.push({
      answer: several ? { choices: answer } : type === "SINGLE_SELECT" ? { choice: answer } : { content: answer },
      question: { remote_id: question_id, title: asked?.title ?? null, type }
    })
  }
  return Result.succeed({ shown, warnings })
}
