/** The entries of the audit log in words. An entry without words is shown as it is. */

export const commandsInWords: Readonly<Record<string, string>> = {
  "streams.poll": "Polled a stream",
  "streams.sweep": "Started a sweep",
  "streams.backfill": "Started a backfill",
  "streams.rewind": "Rewound a stream",
  "streams.audit": "Compared a stream with the API",
  "streams.pause": "Paused a stream",
  "streams.resume": "Resumed a stream, or tried it again",
  "holds.approve": "Approved a hold",
  "holds.reject": "Rejected a hold",
  "holds.reveal": "Revealed records of a hold",
  "events.reveal": "Revealed the values of an event",
  "plugins.on": "Switched a plugin on",
  "plugins.off": "Switched a plugin off",
  "plugins.stop-writes": "Stopped all writes",
  "plugins.resume-writes": "Resumed writes",
  "plugins.try": "Tried a handler with an open circuit",
  "plugins.replay": "Delivered events again",
  "deadletters.redrive": "Sent dead letters again",
  "deadletters.discard": "Discarded dead letters",
  "deadletters.resolve": "Reported the outcome of a write",
  "integrations.add": "Added an integration",
  "integrations.remove": "Removed an integration",
  "sessions.end": "Ended sessions",
  forget: "Forgot a record",
  "forget.allow": "Allowed a forgotten record again"
}

/** The page of the stream, hold, plugin or integration to which a command was applied; null if it has none. */
export const targetPath = (command: string, target: string): string | null => {
  const [kind] = command.split(".")
  const [first = "", second] = target.split("/")
  if (kind === "holds") return `/holds/${target}`
  if (kind === "integrations") return `/integrations/${encodeURIComponent(target)}`
  if (command === "plugins.stop-writes" || command === "plugins.resume-writes") return "/plugins"
  if (kind === "plugins") return `/plugins/${encodeURIComponent(first)}`
  if (kind !== "streams" && command !== "events.reveal" || second === undefined) return null
  return `/streams/${encodeURIComponent(first)}/${encodeURIComponent(second)}`
}

/** By route. */
export const readsInWords: Readonly<Record<string, string>> = {
  "/v1/events": "Events",
  "/v1/records": "Records",
  "/v1/changes": "Search for events",
  "/v1/changes/:position": "One event",
  "/v1/changes/:position/content": "The values of an event",
  "/v1/holds/:id": "The records of a hold",
  "/v1/holds/:id/content": "The values of held records",
  "/v1/deadletters": "Dead letters",
  "/v1/deadletters/:id": "One dead letter",
  "/v1/plugins/writes/unconfirmed": "Unconfirmed writes of plugins",
  "/v1/plugins/:plugin/replay": "The requests of a replay",
  "/v1/forget": "Forgotten records",
  "/v1/forget/plan": "The plan to forget a record",
  "/v1/forget/progress": "The progress of forgetting a record",
  "/v1/streams/:integration/:model/audit": "The differences that an audit found"
}
