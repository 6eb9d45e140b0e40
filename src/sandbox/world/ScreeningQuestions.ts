/**
 * The screening questions of applications, and how the answers are shown.
 *
 * Gotchas
 * - No endpoint lists questions, so a client may send an answer to an unknown question: the answer is kept, with a warning.
 * - Every question exists seven times, each with its own id, as in systems that copy questions for each job.
 */
import * as Result from "effect/Result"
import { isDayOrTime } from "../../api/Fields.ts"
import type { CreateApplication } from "../../api/Recruiting.ts"
import { type ApiError, invalidInput } from "./ApiError.ts"
import { iso, type Json } from "./Records.ts"
import * as SampleData from "./SampleData.ts"
import type { SeededRandom } from "./SeededRandom.ts"

const copies = 7
const questions = {
  start: { title: "When could you start?", type: "SINGLE_SELECT" },
  why: { title: "Why do you want to work here?", type: "TEXT" },
  days: { title: "On which days could you work?", type: "MULTI_SELECT" },
  relocate: { title: "Would you relocate?", type: "BOOLEAN" },
  years: { title: "How many years have you worked in this field?", type: "NUMBER" },
  visit: { title: "From which day could you visit us?", type: "DATE" }
} as const
type QuestionType = (typeof questions)[keyof typeof questions]["type"]

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
  ...(serial % 3 === 0 ? [{ answer: { choices: ["weekdays"] }, question: questionOf("days", serial) }] : []),
  ...(serial % 4 === 0 ? [{ answer: { checked: serial % 8 === 0 }, question: questionOf("relocate", serial) }] : []),
  ...(serial % 5 === 0 ? [{ answer: { number: serial % 30 }, question: questionOf("years", serial) }] : []),
  ...(serial % 6 === 0
    ? [{ answer: { date: iso(Date.UTC(2026, serial % 12, 1)) }, question: questionOf("visit", serial) }]
    : [])
]

const known = new Map(
  (Object.keys(questions) as ReadonlyArray<keyof typeof questions>).flatMap((name) =>
    Array.from({ length: copies }, (_, copy) => questionOf(name, copy)).map((question) =>
      [question.remote_id, question] as const
    )
  )
)

type SubmittedAnswers = NonNullable<CreateApplication["screening_question_answers"]>
type SubmittedAnswer = SubmittedAnswers[number]["answer"]

/** The answer as applications show it; null if it is not an answer to a question of this type. */
const renderAnswer: Readonly<Record<QuestionType, (answer: SubmittedAnswer) => Json>> = {
  TEXT: (answer) => typeof answer === "string" ? { content: answer } : null,
  SINGLE_SELECT: (answer) => typeof answer === "string" ? { choice: answer } : null,
  MULTI_SELECT: (answer) => isChoices(answer) ? { choices: answer } : null,
  BOOLEAN: (answer) => typeof answer === "boolean" ? { checked: answer } : null,
  NUMBER: (answer) => typeof answer === "number" ? { number: answer } : null,
  DATE: (answer) => isDayOrTime(answer) ? { date: iso(Date.parse(answer)) } : null
}
const isChoices = (answer: SubmittedAnswer): answer is ReadonlyArray<string> => Array.isArray(answer)

const expectedAnswers: Readonly<Record<QuestionType, string>> = {
  TEXT: "a text",
  SINGLE_SELECT: "the id of one option",
  MULTI_SELECT: "an array of option ids",
  BOOLEAN: "true or false",
  NUMBER: "a number",
  DATE: "a day or a time, such as 2026-03-01"
}

/** The type of question that an answer to an unknown question seems to belong to; null for a file. */
const typeOf = (answer: SubmittedAnswer): QuestionType | null => {
  if (typeof answer === "boolean") return "BOOLEAN"
  if (typeof answer === "number") return "NUMBER"
  if (isChoices(answer)) return "MULTI_SELECT"
  return typeof answer === "string" ? "TEXT" : null
}

/** The answers as applications show them, and the warnings. */
export const parseAnswers = (
  answers: SubmittedAnswers
): Result.Result<{ readonly rendered: ReadonlyArray<Json>; readonly warnings: ReadonlyArray<string> }, ApiError> => {
  const warnings: Array<string> = []
  const rendered: Array<Json> = []
  for (const [i, { answer, question_id }] of answers.entries()) {
    const question = known.get(question_id)
    if (question === undefined) warnings.push(`No screening question has the id "${question_id}"; the answer was kept.`)
    const type = question?.type ?? typeOf(answer)
    const shown = type === null ? { raw: fileName(answer) } : renderAnswer[type](answer)
    if (type !== null && shown === null) {
      const wanted = `the question takes ${expectedAnswers[type]}.`
      return Result.fail(invalidInput(`screening_question_answers/${i}/answer: ${wanted}`))
    }
    rendered.push({
      answer: shown,
      question: { remote_id: question_id, title: question?.title ?? question_id, type: type ?? "UNKNOWN" }
    })
  }
  return Result.succeed({ rendered, warnings })
}

const fileName = (answer: SubmittedAnswer): Json =>
  typeof answer === "object" && "name" in answer ? { file_name: answer.name } : null
