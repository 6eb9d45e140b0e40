/**
 * The places of events in the sink, as the store records them: each published position has the place at which the sink has its event, and
 * no other position has one.
 */
import type { LogEntry } from "../../../src/domain/ChangeEvent.ts"
import type { EventPlace } from "../../../src/store/EventLog.ts"
import type { SinkPlace } from "../service/SimulatedSink.ts"
import type { ReportViolation } from "./ObservedStream.ts"

export interface Placed {
  /** Where the sink has an event; undefined if it has not. */
  readonly inSink: (eventId: string) => SinkPlace | undefined
  /** Where the store says that the event of a position is. */
  readonly inStore: (position: number) => EventPlace | null
}

/** `log`: what the store holds. `lost`: the store that published these events was replaced by a copy, which may lack their places. */
export const checkPlaces = (
  log: ReadonlyArray<LogEntry>,
  { inSink, inStore }: Placed,
  lost: ReadonlySet<string>,
  report: ReportViolation
): void => {
  /** By partition: the newest offset. */
  const newest = new Map<string, number>()
  for (const { eventId, position } of log) {
    const [expected, found] = [inSink(eventId), inStore(position)]
    if (found === null) {
      if (expected !== undefined && !lost.has(eventId)) {
        report("I2", `the place of position ${position} is not recorded`)
      }
      continue
    }
    const place = `${found.topic} ${found.partition}, offset ${found.offset}`
    if (expected === undefined) report("I2", `position ${position} is recorded at ${place}, and was not published`)
    else if (place !== `${expected.topic} ${expected.partition}, offset ${expected.offset}`) {
      report("I2", `position ${position} is recorded at ${place}, and is at offset ${expected.offset}`)
    }
    const partition = `${found.topic} ${found.partition}`
    if (found.offset <= (newest.get(partition) ?? -1)) report("I5", `${place} is recorded for a later position too`)
    newest.set(partition, found.offset)
  }
}
