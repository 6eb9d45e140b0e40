/** The mutations of the simulated world that take one person from applicant to employee. */
import * as Effect from "effect/Effect"
import type { SandboxHandle } from "../../sandbox/Sandbox.ts"
import type { Person } from "./Story.ts"

const name = { first_name: "Maya", last_name: "Lindholm" }
export const introduction =
  `Follow ${name.first_name} ${name.last_name}: an applicant, interviewed, hired, and an employee.`

const between = "3 seconds"

/** Makes the person apply, get an interview and an offer, and be hired. Ends early if the world deletes one of the records. */
export const act = Effect.fnUntraced(function*(
  { integrations: [integration = ""], mutate, truth }: SandboxHandle,
  person: Person
) {
  const stages = yield* truth("ats.stage", integration)
  // a stage may have been renamed since the start: "Offer" to "Offer Europe"
  const stageOf = (first: string) =>
    stages.flatMap((stage) => {
      const { id, name } = Object(stage)
      return String(name).startsWith(first) && typeof id === "string" ? [id] : []
    })[0] ?? null
  const candidate = yield* mutate({ op: "create", integration, model: "ats.candidate", fields: name })
  const links = { candidate: candidate.id }
  const application = yield* mutate({ op: "create", integration, model: "ats.application", links })
  person.add(candidate.id).add(application.id)
  const target = { op: "update", integration, model: "ats.application", id: application.id } as const
  const moveTo = (stage: string) => mutate({ ...target, links: { current_stage: stageOf(stage) } })
  const add = (model: string, fields: Record<string, string>) =>
    mutate({ op: "create", integration, model, fields, links: { application: application.id } })
  const acts = [
    moveTo("Interview"),
    add("ats.interview", { title: "Technical interview" }),
    moveTo("Offer"),
    add("ats.offer", { status: "SENT" }),
    mutate({ ...target, fields: { outcome: "HIRED" } })
  ]
  yield* Effect.forEach(acts, (next) => Effect.andThen(Effect.sleep(between), next), { discard: true })
}, (acts) => Effect.ignore(acts))
