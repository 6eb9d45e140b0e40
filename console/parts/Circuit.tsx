/** A handler whose circuit is open: when one of its deliveries is tried, and the command that tries it now. */
import type { HandlerName, OpenCircuit } from "../../src/domain/HandlerCircuit.ts"
import { post } from "../Client.ts"
import { At } from "./Basics.tsx"
import { Command } from "./Command.tsx"

export const TryNow = ({ after, circuit: { handler, plugin } }: {
  readonly circuit: HandlerName
  readonly after: () => unknown
}) => (
  <Command
    label="Try now"
    subject={`${plugin} (${handler})`}
    title={`Try ${plugin} (${handler}) now?`}
    confirm="Try now"
    run={async () => {
      await post(`/v1/plugins/${encodeURIComponent(plugin)}/try?handler=${encodeURIComponent(handler)}`)
      return `${plugin} (${handler}): one delivery is tried now`
    }}
    after={after}
  >
    <p>
      One delivery is tried at once. If it succeeds, the circuit closes and the others follow. If it fails, they wait
      again, for longer.
    </p>
  </Command>
)

export const Waiting = ({ after, circuit }: { readonly circuit: OpenCircuit; readonly after: () => unknown }) => (
  <div>
    Waiting: the circuit of {circuit.plugin}{" "}
    ({circuit.handler}) is open, because its deliveries failed for ten records in a row. One is tried at{" "}
    <At at={circuit.until} />. <TryNow circuit={circuit} after={after} />
  </div>
)
