/**
 * The screening questions of applications, and how the answers are shown.
 *
 * Gotchas
 * - No endpoint lists questions, so a client may send an answer to an unknown question: the answer is kept, with a warning.
 * - Every question exists seven times, each with its own id, as in systems that copy questions for each job.
 */
import * as Result from "effect/Result"
import type { CreateApplication } from "../../api/Recruiting.ts"
import { type ApiError, invalidInput } from "../ApiError.ts"
import type { Json } from "./Records.ts"
import * as SampleData from "./SampleData.ts"
import type { SeededRandom } from "./SeededRandom.ts"

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

/** The answers of a generated applicant. */
export const generateAnswers = (serial: number, random: SeededRandom): Json => [
  {
    answer: { choice: random.pick(["Immediately", "In one month", "In three months"]) },
    question: questionOf("start", serial)
  },
  { answer: { content: random.pick(SampleData.reviewComments) }, question: questionOf("why", serial) },
  ...(serial % 3 === 0 ? [{ answer: { choices: ["weekdays"] }, question: questionOf("days", serial) }] : [])
]

const known = new Map(
  (Object.keys(questions) as ReadonlyArray<keyof typeof questions>).flatMap((name) =>
    Array.from({ length: copies }, (_, copy) => questionOf(name, copy)).map((question) =>
      [question.remote_id, question] as const
    )
  )
)

type SubmittedAnswers = NonNullable<CreateApplication["screening_question_answers"]>

/** The answers as applications show them, and the warnings; an array answer holds option ids of a multi-select question. */
export const parseAnswers = (
  answers: SubmittedAnswers
): Result.Result<{ readonly rendered: ReadonlyArray<Json>; readonly warnings: ReadonlyArray<string> }, ApiError> => {
  const warnings: Array<string> = []
  const rendered: Array<Json> = []
  for (const [i, { answer, question_id }] of answers.entries()) {
    const question = known.get(question_id)
    const isMultiple = typeof answer !== "string"
    if (question !== undefined && isMultiple !== (question.type === "MULTI_SELECT")) {
      const wanted = isMultiple ? "takes one answer" : "takes an array of option ids"
      return Result.fail(invalidInput(`screening_question_answers/${i}/answer: the question ${wanted}.`))
    }
    if (question === undefined) warnings.push(`No screening question has the id "${question_id}"; the answer was kept.`)
    const type = question?.type ?? (isMultiple ? "MULTI_SELECT" : "TEXT")
    rendered.push({
      answer: isMultiple ? { choices: answer } : type === "SINGLE_SELECT" ? { choice: answer } : { content: answer },
      question: { remote_id: question_id, title: question?.title ?? null, type }
    })
  }
  return Result.succeed({ rendered, warnings })
}
