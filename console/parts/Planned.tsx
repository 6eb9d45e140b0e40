/** Sends dead letters again, or discards them, after a plan has counted them. */
import { useState } from "preact/hooks"
import type { PlanView, RedriveView } from "../../src/http/contract/DeadLetterApi.ts"
import { post } from "../Client.ts"
import { number, plural, time } from "../Format.ts"
import { serverNow } from "../Live.ts"
import { At, Fact, Facts } from "./Basics.tsx"
import { Command } from "./Command.tsx"
import { redriven } from "./Redriven.tsx"
import { usePlan } from "./Resource.tsx"

type Filter = Readonly<Record<string, string | ReadonlyArray<number>>>

/** `sends`: they are sent again, so what delays them or makes them fail matters. */
const PlanFacts = ({ isOne, plan, sends }: {
  readonly plan: PlanView
  readonly sends: boolean
  readonly isOne: boolean
}) => (
  <>
    <Facts>
      <Fact name="Dead letters">{number(plan.count)}</Fact>
      <Fact name="Waiting behind them">{number(plan.parked)}</Fact>
    </Facts>
    <ul>
      {plan.shares.map(({ count, handler, plugin, reason, refusal }) => (
        <li key={`${plugin} ${handler} ${reason} ${refusal}`}>
          {number(count)} of {plugin} ({handler}): {refusal ?? reason}
        </li>
      ))}
    </ul>
    {!sends || plan.circuits.length === 0 ? null : (
      <div class="notice warn">
        {plan.circuits.map((circuit) => (
          <p key={`${circuit.plugin} ${circuit.handler}`}>
            Those of {circuit.plugin} ({circuit.handler}) wait: its circuit is open until <At at={circuit.until} /> UTC.
          </p>
        ))}
      </div>
    )}
    {!sends || plan.unknown === 0 ? null : (
      <p class="notice warn">
        {isOne ? "It has" : plural(plan.unknown, "of them has", "of them have")}{" "}
        a write of unknown outcome and will fail again: first report whether it happened.{" "}
        {isOne ? null : plan.unknown_ids.map((id) => (
          <span key={id}>
            <a href={`/dead-letters/${id}`}>Dead letter {id}</a>
            {" "}
          </span>
        ))}
      </p>
    )}
  </>
)

/** The most dead letters that are sent again without a dialog. */
const mostAtOnce = 100

/** A command that acts on exactly the dead letters that its dialog counts, or that the page counts. */
export const Planned = ({ after, command, counted = null, filter, isMain = false, label }: {
  readonly filter: Filter
  /** How many the page counts: they are sent again at the click if nothing delays them and no outcome is unknown. */
  readonly counted?: number | null
  readonly command: "redrive" | "discard"
  /** It is what to do next. */
  readonly isMain?: boolean
  readonly label: string
  readonly after: () => unknown
}) => {
  const read = () => post<PlanView>("/v1/deadletters/plan", filter)
  const { load, plan, shown } = usePlan(read)
  const [over, setOver] = useState("")
  const count = plan === null ? "" : ` ${plural(plan.count, "dead letter")}`
  const sends = command === "redrive"
  const execute = async (plan: PlanView) => {
    const spread = sends && over !== "" ? { over } : {}
    const startedAt = Date.now()
    const result = await post<{ count: number } | RedriveView>(
      `/v1/deadletters/${command}`,
      { ...filter, plan: plan.plan, ...spread }
    )
    const { count } = result
    if ("ranges" in result) redriven.value = { ...result, startedAt, handlers: plan.shares }
    const circuit = plan.circuits.find(({ until }) => Date.parse(until) > serverNow.value)
    return sends && circuit !== undefined
      ? {
        tone: "warn" as const,
        text:
          `${
            plural(count, "dead letter")
          } sent again, waiting: the circuit of ${circuit.plugin} (${circuit.handler}) is open, ` +
          `one is tried at ${time(circuit.until)} UTC`
      }
      : `${plural(count, "dead letter")} ${sends ? "sent again" : "discarded"}`
  }
  const direct = async () => {
    const plan = await read()
    const isClear = plan.count === counted && counted <= mostAtOnce && plan.circuits.length + plan.unknown === 0
    return isClear ? execute(plan) : null
  }
  return (
    <Command
      label={label}
      {...sends ? isMain ? { tone: "main" as const } : {} : { tone: "danger" as const }}
      title={sends ? "Send dead letters again?" : "Discard dead letters?"}
      confirm={sends ? `Send${count} again` : `Discard${count}`}
      isBlocked={plan === null || plan.count === 0}
      onOpen={load}
      {...counted === null ? {} : { direct }}
      run={async () => {
        if (plan === null) throw new Error("There is no plan yet.")
        return execute(plan)
      }}
      after={after}
    >
      <p>
        {sends
          ? "Each gets all its attempts again. Steps that are done are not repeated."
          : "This cannot be undone: the handler never does this work. Later deliveries of the same records continue."}
      </p>
      {shown((plan) => <PlanFacts plan={plan} sends={sends} isOne={counted === 1} />)}
      {sends
        ? (
          <label>
            Send them
            <select value={over} onChange={({ currentTarget: { value } }) => setOver(value)}>
              <option value="">all at once</option>
              <option value="10 minutes">spread over 10 minutes</option>
              <option value="1 hour">spread over 1 hour</option>
            </select>
          </label>
        )
        : null}
    </Command>
  )
}
