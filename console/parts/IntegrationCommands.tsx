/** Adds an integration, removes it with or without its data, and reads it again. */
import { useState } from "preact/hooks"
import type { IntegrationView } from "../../src/http/contract/Api.ts"
import type { StreamRow } from "../../src/http/contract/OverviewApi.ts"
import { type Fault, get, post, RequestError } from "../Client.ts"
import { plural } from "../Format.ts"
import { usesKafka } from "../Live.ts"
import { queryOf } from "../Router.ts"
import { Choices } from "./Choices.tsx"
import { Command, type Outcome } from "./Command.tsx"
import { firstAnswer } from "./FirstAnswer.ts"
import type { Page } from "./Resource.tsx"

const fields = {
  id: ["Id: the tool, a colon, and the identifier", "greenhouse:acme"],
  account: ["Account (only needed if there are several)", "default"],
  models: ["Models, separated by commas (empty: the configured default)", "ats.application, ats.offer"],
  interval: ["Time between polls, such as 10 minutes (empty: the configured default)", "10 minutes"],
  sweepInterval: ["Time between sweeps, such as 6 hours (empty: the configured default)", "6 hours"]
} as const
type Field = keyof typeof fields
const names = Object.keys(fields) as ReadonlyArray<Field>

const empty: Readonly<Record<Field, string>> = { id: "", account: "", models: "", interval: "", sweepInterval: "" }

const backfills = {
  publish:
    "Publish its records as created, in the feed and in Kafka. Plugins skip them, except handlers that ask for old records.",
  fill: "Only store its records. Only their later changes are published."
} as const
type Backfill = keyof typeof backfills

const listOf = (text: string): ReadonlyArray<string> => text.split(",").map((part) => part.trim())

/** A field that is left out has the configured default. */
const bodyOf = (form: typeof empty, backfill: Backfill) => ({
  ...Object.fromEntries(names.flatMap((name) => {
    const text = form[name].trim()
    return text === "" ? [] : [[name, name === "models" && text !== "auto" ? listOf(text) : text]]
  })),
  backfill
})

/** `body, models[0]` is a fault of the field `models`. */
const faultsOf = (faults: ReadonlyArray<Fault>, name: string) =>
  faults.filter(({ where }) => where.replace(/^body, /, "").replace(/\[.*$/, "") === name)

/** A message is a sentence, or goes on after the name of the field: `is not set`. */
const textOf = ({ hint, message }: Omit<Fault, "where">): string =>
  `${/^[a-z]/.test(message) ? "It " : ""}${message}. ${hint}.`

const wait = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

/** Waits until the API has answered a request for the integration, for ten seconds. */
const awaitAnswer = async (id: string, streams: number): Promise<Outcome> => {
  const path = `/v1/overview/streams${queryOf({ integration: id, limit: 100 })}`
  for (let second = 0; second < 10; second++) {
    await wait(1_000)
    // it is added in any case
    const answer = await get<Page<StreamRow>>(path, { fresh: true }).then(
      ({ items }) => firstAnswer(id, items),
      () => null
    )
    if (answer !== null) return answer
  }
  return { tone: "warn", text: `${id} is added with ${plural(streams, "stream")}, and the API has not answered yet` }
}

export const AddIntegration = ({ accounts, after }: {
  /** The accounts of other integrations, as suggestions. */
  readonly accounts: ReadonlyArray<string>
  readonly after: () => unknown
}) => {
  const [form, setForm] = useState(empty)
  const [backfill, setBackfill] = useState<Backfill>("publish")
  const [faults, setFaults] = useState<ReadonlyArray<Fault>>([])
  return (
    <Command
      label="Add an integration"
      title="Add an integration"
      confirm="Add the integration"
      tone="main"
      onOpen={() => {
        setForm(empty)
        setFaults([])
      }}
      run={async (show) => {
        setFaults([])
        try {
          const { id, streams } = await post<IntegrationView>("/v1/integrations", bodyOf(form, backfill))
          show(`${id} is added. Waiting for the first answer of the API.`)
          return await awaitAnswer(id, streams)
        } catch (error) {
          if (!(error instanceof RequestError) || error.faults.length === 0) throw error
          setFaults(error.faults)
          const others = error.faults.filter((fault) => !names.some((name) => faultsOf([fault], name).length > 0))
          const hint = [...others.map(({ where, ...fault }) => `${where}: ${textOf(fault)}`), "See the fields above."]
          throw new RequestError(error.status, "Nothing was added.", hint.join(" "))
        }
      }}
      after={after}
    >
      <p>
        It is read with the key of its account, which is in the configuration. It stays across restarts.
      </p>
      {names.map((name) => {
        const [label, example] = fields[name]
        const own = faultsOf(faults, name)
        return (
          <div key={name} class="field">
            <label>
              {label}
              <input
                type="text"
                value={form[name]}
                placeholder={example}
                aria-required={name === "id"}
                list={name === "account" ? "accounts" : undefined}
                autocomplete="off"
                spellcheck={false}
                aria-invalid={own.length > 0}
                aria-describedby={own.length > 0 ? `fault-${name}` : undefined}
                onInput={({ currentTarget: { value } }) => setForm({ ...form, [name]: value })}
              />
            </label>
            {own.length === 0 ? null : (
              <div id={`fault-${name}`} class="faults">
                {own.map((fault) => <p key={fault.where}>{textOf(fault)}</p>)}
              </div>
            )}
          </div>
        )
      })}
      <datalist id="accounts">{accounts.map((account) => <option key={account} value={account} />)}</datalist>
      <Choices legend="First read" name="backfill" texts={backfills} chosen={backfill} choose={setBackfill} />
    </Command>
  )
}

type Data = "keep" | "erase"

const dataTexts: Readonly<Record<Data, string>> = {
  keep:
    "Keep its records and its history. If it is added again, it continues where it stopped; until then, its open deliveries wait.",
  erase: "Erase its records and its history, for good."
}

const Remove = ({ after, one }: { readonly one: IntegrationView; readonly after: () => unknown }) => {
  const { id, records_live, state } = one
  const isRemoved = state === "removed"
  const [data, setData] = useState<Data>("keep")
  const records = plural(records_live, "record")
  const erases = isRemoved || data === "erase"
  return (
    <Command
      label={isRemoved ? "Erase its data" : "Remove"}
      title={isRemoved ? `Erase the data of ${id}?` : `Remove ${id}?`}
      confirm={records_live === 0
        ? erases ? "Erase" : "Remove"
        : erases
        ? `Erase ${records}`
        : `Remove, and keep ${records}`}
      tone="danger"
      onOpen={() => setData("keep")}
      run={async () => {
        const path = `/v1/integrations/${encodeURIComponent(id)}/remove`
        await post<IntegrationView>(path, { data: erases ? "erase" : "keep" })
        return erases ? `${id} is being erased` : `${id} is removed; its records are kept`
      }}
      after={after}
    >
      <p>
        {isRemoved ? "It is not read." : "Rollcall stops reading it at once, and finds no further change."}{" "}
        Nothing changes at the vendor{usesKafka() ? ", and Kafka keeps its events" : ""}.
      </p>
      {isRemoved
        ? null
        : <Choices legend="Its data here" name="data" texts={dataTexts} chosen={data} choose={setData} />}
      {erases
        ? (
          <p class="notice warn">
            This cannot be undone. Its records are deleted, its events leave the event log once they are published, and
            its deliveries that wait are dropped. No <code>deleted</code>{" "}
            event is published. If it is added again, all its records are created again.
          </p>
        )
        : null}
    </Command>
  )
}

/** Sends the settings that it had. */
const ReadAgain = ({ after, one }: { readonly one: IntegrationView; readonly after: () => unknown }) => {
  const { account, backfill, id, interval_seconds, models, sweep_interval_seconds } = one
  return (
    <Command
      label="Read it again"
      title={`Read ${id} again?`}
      confirm="Read it again"
      tone="main"
      run={async () => {
        await post<IntegrationView>("/v1/integrations", {
          id,
          account,
          models,
          backfill,
          interval: `${interval_seconds} seconds`,
          sweepInterval: `${sweep_interval_seconds} seconds`
        })
        return `${id} is read again`
      }}
      after={after}
    >
      <p>It continues where it stopped, with the settings that it had.</p>
    </Command>
  )
}

/** The commands for the whole integration, or why there are none. */
export const IntegrationCommands = (props: { readonly one: IntegrationView; readonly after: () => unknown }) => {
  const { declared, state } = props.one
  if (declared) {
    return (
      <p class="quiet">
        The configuration declares this integration, so it is changed or removed only there, with a restart. Its records
        are kept.
      </p>
    )
  }
  if (state === "erasing") {
    return <p class="notice warn">Its data is being erased: each event is deleted once it is published.</p>
  }
  return (
    <>
      {state === "active"
        ? (
          <p class="quiet">
            It was added at run time. To change its settings, remove it with its data kept, and add it again. If its id
            is misspelled, remove it; add the right one if it is not in the list yet.
          </p>
        )
        : <p class="notice">It was removed, and is not read. Its records and its history are kept.</p>}
      <div class="buttons">
        {state === "removed" ? <ReadAgain {...props} /> : null}
        <Remove {...props} />
      </div>
    </>
  )
}
