/** The first answer of the API about an integration that was just added, from the states of its streams. */
import type { StreamRow } from "../../src/http/contract/OverviewApi.ts"
import type { Outcome } from "./Command.tsx"

type Row = Pick<StreamRow, "cause" | "records_live" | "state" | "stream">

/** Null while the API has neither refused a request nor shown a record. */
export const firstAnswer = (id: string, rows: ReadonlyArray<Row>): Outcome | null => {
  const refused = rows.find(({ cause, state }) => cause !== null && (state === "blocked" || state === "failing"))
  if (refused !== undefined) {
    const text =
      `${id} is added, but ${refused.stream} cannot be read: ${refused.cause}. If the id is wrong, remove ${id}.`
    return { tone: "bad", text }
  }
  const isRead = rows.some(({ records_live, state }) => state === "ok" || records_live > 0)
  return isRead ? { tone: "good", text: `${id} is added, and the API answers` } : null
}
