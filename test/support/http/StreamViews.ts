/** The view of a stream that is live and has no faults, for tests of code that shows streams. */
import type { StreamView } from "../../../src/http/contract/StreamApi.ts"

export const streamView = (
  integration: string,
  model: StreamView["model"],
  change: Partial<StreamView> = {}
): StreamView => ({
  stream: `${integration}/${model}`,
  integration,
  model,
  phase: "live",
  paused: false,
  blocked: null,
  failing: null,
  watermark: null,
  generation: 1,
  complete_to: null,
  complete_to_remark: null,
  position: "a-1-1",
  freshness_seconds: 10,
  records_live: 0,
  pending: {},
  quarantined: 0,
  stale_records: 0,
  polls_return: "changes",
  progress: null,
  redacting: null,
  last_poll_at: null,
  last_sweep_at: null,
  sweep_age_seconds: null,
  last_poll_started_at: "2026-03-01T12:00:00.000Z",
  last_sweep_started_at: null,
  sweep_repeats: false,
  ...change
})
