/** Describes the responses and commits of a world, line by line, to find the cause of a violation. */
import type { CommittedTransaction } from "../service/CommittedTransaction.ts"
import type { RunningProcess } from "../service/ProcessObserver.ts"
import type { ServedPage } from "../world/FaultyApi.ts"

/** Minutes since `start`, both ms. */
export const minutes = (at: number, start: number): string => `${((at - start) / 60_000).toFixed(2).padStart(8)} min`

const short = (id: string): string => id.slice(0, 5)

/** A row is written `<record>:<state>`; `†` marks a state shown as deleted. */
export const describePage = (process: RunningProcess, delivery: ServedPage): string => {
  const { copies, last, request, table } = delivery
  const rows = copies.map(({ hasId, row, state }) =>
    `${hasId ? "" : "nameless "}${short(row.id)}:${state}${row.history[state]!.live ? "" : "†"}`
  )
  const requested = request.ids !== null
    ? `${request.ids.length} ids`
    : request.updatedAfter === null
    ? "all"
    : `after ${new Date(request.updatedAfter).toISOString().slice(11, 19)}`
  return `process ${process.number}  ${request.priority} ${table.model} ${requested} page ${request.cursor ?? "first"}${
    last ? " (last)" : ""
  }: ${rows.join(" ") || "nothing"}`
}

export const describeCommit = (
  process: RunningProcess,
  { after, before, key, log, pending }: CommittedTransaction
): string => {
  const changes = [
    ...log.map(({ event: { id, kind, origin, version }, model }) =>
      `${kind} ${model === key.model ? "" : `${model} `}${short(id)} v${version} (${origin})`
    ),
    ...[...pending].map(([id, row]) => `${short(id)} ${row === null ? "no longer pending" : `pending: ${row.status}`}`),
    ...(after.watermark === before.watermark
      ? []
      : [`watermark ${new Date(after.watermark ?? 0).toISOString().slice(11, 19)}`]),
    ...(after.sweep?.id === before.sweep?.id
      ? []
      : [after.sweep === null ? "no sweep open" : `sweep ${after.sweep.id} open`]),
    ...(after.failing === null ? [] : [`failing: ${after.failing.message}`]),
    ...(after.blocked === null ? [] : [`blocked: ${after.blocked.reason}`])
  ]
  return `process ${process.number}    committed ${key.model}: ${changes.join("; ") || "nothing new"}`
}
