/**
 * Corrects a timer of kafkajs, when this module is imported. After each response, a connection of kafkajs looks for requests that wait, and
 * sets a timer for its next look. The duration of that timer is negative, so an idle connection looks nearly a thousand times a second.
 * With this correction the timer is set only while a request waits.
 *
 * Gotchas
 * - The class is internal. A test fails if it is different in a new version.
 */
import { createRequire } from "node:module"

interface RequestQueue {
  readonly pending: ReadonlyArray<unknown>
  scheduleCheckPendingRequests: () => void
}

const { prototype }: { readonly prototype: RequestQueue } = createRequire(import.meta.url)(
  "kafkajs/src/network/requestQueue/index.js"
)
const { scheduleCheckPendingRequests } = prototype

prototype.scheduleCheckPendingRequests = function() {
  if (this.pending.length > 0) scheduleCheckPendingRequests.call(this)
}
