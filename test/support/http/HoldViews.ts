/** The view of an open hold, for tests of code that shows holds. */
import type { HoldView } from "../../../src/http/contract/HoldApi.ts"

export const holdView: HoldView = {
  id: 3,
  stream: "lever:acme/ats.tag",
  integration: "lever:acme",
  model: "ats.tag",
  kind: "deletes",
  state: "open",
  reason: "12 of 20 records",
  paths: [],
  opened_at: "2026-03-01T11:30:00.000Z",
  decided_at: null,
  records: 12,
  released: 0,
  published: false,
  waiting_reason: null,
  sweep_at: null
}
