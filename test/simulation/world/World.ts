/**
 * The API's data: records, their links, and every change of what the API shows of them. It is small, because thousands
 * of worlds are run; the sandbox's world is the large one.
 *
 * Invariants
 * 1. `history` of a row contains every state that the API ever showed, in order; the record never had another state.
 *
 * Gotchas
 * - A change with a lag is applied when it becomes visible, and dated when it happened.
 * - Which changes `updated_after` announces is implemented here again, from the contract, independently of the capture.
 */
import type { ForgettableRecord } from "../../../src/domain/Forgotten.ts"
import { hash, idOf, SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import type { Mutation, WorldSettings } from "../plan/Plan.ts"
import { hasScales } from "./DefinedModels.ts"
import { Links } from "./Links.ts"
import { edit, hideable, newFields, render } from "./RecordContent.ts"
import { type Json, type JsonObject, type Linked, type Row, Table } from "./Table.ts"

const outcomes = ["PENDING", "HIRED", "DECLINED"]
const hour = 3_600_000
const day = 24 * hour
const year = 365 * day
const iso = (time: number): string => new Date(time).toISOString()

export class World {
  readonly tables: ReadonlyArray<Table>
  readonly #seed: number
  readonly #order: WorldSettings["order"]
  readonly #start: number
  readonly #links: Links
  readonly #plugins: boolean
  readonly #futureDates: boolean

  constructor(seed: number, setting: WorldSettings, start: number) {
    this.#seed = seed
    this.#order = setting.order
    this.#start = start
    this.#links = new Links(start)
    this.#plugins = setting.plugins
    this.#futureDates = setting.futureDates
    this.tables = setting.streams.map(({ integration, model }) => new Table(integration, model))
    const random = new SeededRandom(hash(`population ${seed}`))
    for (const table of this.tables) {
      // the list of candidates has all that applications show
      const records = table.model === "ats.candidate" ? Math.max(setting.records, 7) : setting.records
      for (let i = 0; i < records; i++) {
        const at = start - 60_000 - Math.floor(random.next() * year)
        const row = this.#insert(table, at, at, random.next())
        if (random.boolean(0.1)) row.deletedAt = row.changedAt = row.matchedAt = at + 1000
        this.#show(table, row, start - 1)
      }
    }
  }

  table(integration: string, model: string): Table | undefined {
    return this.tables.find((table) => table.integration === integration && table.model === model)
  }

  /** Every record, and every candidate that an application shows or showed, in the order in which they appeared. */
  get forgettable(): ReadonlyArray<ForgettableRecord> {
    return this.tables.flatMap(({ byId, integration, model }) => {
      const rows = [...byId.values()]
      const candidates = new Set(
        rows.flatMap(({ fields }) => "candidate" in fields ? [`c${String(fields["candidate"])}`] : [])
      )
      return [
        ...rows.map(({ id }): ForgettableRecord => ({ integration, model, id })),
        ...[...candidates].map((id): ForgettableRecord => ({ integration, model: "ats.candidate", id }))
      ]
    })
  }

  /** Texts that only the content of this record contains; none for a record without such a text. */
  marksOf({ id, integration, model }: ForgettableRecord): ReadonlyArray<string> {
    if (model === "ats.candidate") return [`"${id.slice(1)}@home.example"`, `"${id.slice(1)}@work.example"`]
    const row = this.table(integration, model)?.byId.get(id)
    return row === undefined || model !== "ats.application"
      ? []
      : [`"https://ats.example/${row.serial}"`, `"custom ${row.serial}"`]
  }

  /** Applies a mutation: dated `at`, visible from `now` on. Returns false if no record is suitable. */
  apply(step: Mutation, at: number, now: number): boolean {
    const table = this.tables[step.stream % this.tables.length]!
    const live = table.rows.filter((row) => row.deletedAt === null)
    const pick = (rows: ReadonlyArray<Row>): Row | undefined => rows[Math.floor(step.recordPick * rows.length)]
    const some = (fits: (row: Row) => boolean = () => true) => pick(live.filter(fits))
    /** Changes one record itself. */
    const own = (row: Row | undefined, change: (row: Row) => void): boolean => {
      if (row === undefined) return false
      row.stamp = undefined
      change(row)
      this.#touch(table, row, at, now)
      this.#note(table, row, now, true)
      return true
    }
    const flag = (row: Row) => {
      row.deletedAt = at
    }
    const vanish = (row: Row): boolean => {
      row.gone = true
      table.rows.splice(table.rows.indexOf(row), 1)
      table.moves.push({ at: now, isAnnounced: false })
      this.#note(table, row, now, false)
      return true
    }
    const each = (rows: ReadonlyArray<Row>, change: (row: Row) => boolean) => rows.map(change).includes(true)
    const third = () => live.filter((_, index) => (index + Math.floor(step.recordPick * 3)) % 3 === 0)
    switch (step.mutation) {
      case "create":
        return this.#create(table, at, now, at - Math.floor(step.recordPick * 60_000), step.value)
      case "createOld":
        return this.#create(table, at, now, this.#start - year - Math.floor(step.recordPick * year), step.value)
      case "createUndated":
        return this.#create(table, at, now, null, step.value)
      case "createDeleted": {
        const row = this.#insert(table, at, at, step.value)
        row.deletedAt = at
        this.#note(table, row, now, true)
        return true
      }
      case "edit":
        return own(some(), (row) => edit(table, row, step.value))
      case "outcome":
        return own(some((row) => "outcome" in row.fields), (row) => {
          row.fields["outcome"] = outcomes[Math.floor(step.value * 3)]!
        })
      case "stage":
        return own(some((row) => "stage" in row.fields), (row) => {
          row.fields["stage"] = Math.floor(step.value * 4)
        })
      case "stir":
        return own(some(), (row) => {
          row.updatedAt = at
          if (row.person !== null) {
            row.person = this.#links.change(this.#links.candidates, table.integration, row.fields["candidate"], at)
            this.#changeListed(table.integration, row.fields["candidate"], at, now)
          }
        })
      case "reorder":
        return own(some(), (row) => void row.reorderings++)
      case "oddStamp":
        return own(some(), (row) => {
          edit(table, row, step.value)
          row.stamp = [null, iso(at + year), iso(at - year)][Math.floor(step.recordPick * 3)]!
        })
      case "surprise":
        return own(some(), (row) => {
          if (step.value < 0.3) row.fields["novelty"] = { depth: step.value }
          else if (step.value < 0.6 && "outcome" in row.fields) row.fields["outcome"] = "WITHDRAWN"
          else row.fields["name"] = [step.value]
        })
      case "entry":
        return own(some((row) => "interviews" in row.fields), (row) => {
          const interviews = row.fields["interviews"] as ReadonlyArray<Json>
          row.fields["interviews"] = interviews.length > 2
            ? interviews.slice(1)
            : [...interviews, { id: `i${row.serial}-${at}`, title: `round ${Math.floor(step.value * 9)}` }]
        })
      case "renameLinked":
        return this.#rename(
          table,
          step,
          at,
          now,
          hasScales(table.model) ? this.#links.scales : this.#links.candidates
        )
      case "renamePartly":
        return this.#rename(table, step, at, now, this.#links.candidates, ({ serial }) => serial % 2 === 0)
      case "renameSilent":
        return this.#rename(table, step, at, now, this.#links.jobs)
      case "renameSeen": {
        // an emptied record shows nothing that was renamed
        const showing = some((row) =>
          row.fields["job"] === Math.floor(step.recordPick * 3) && row.history.at(-1)?.live === true
        )
        return showing !== undefined && this.#rename(table, step, at, now, this.#links.jobs) &&
          own(showing, (row) => edit(table, row, step.value))
      }
      case "flag":
        return own(some(), flag)
      case "vanish": {
        const row = some()
        return row !== undefined && vanish(row)
      }
      case "restore": {
        const row = pick([...table.byId.values()].filter((row) => row.gone || row.blank || row.deletedAt !== null))
        if (row?.gone === true) table.rows.push(row)
        return own(row, (row) => {
          row.gone = row.blank = row.switchedOff = false
          row.deletedAt = null
          if (step.value < 0.5) edit(table, row, step.value)
        })
      }
      case "blank": {
        const rows = table.rows.filter((row) => row.deletedAt !== null && !row.blank)
        return each(rows, (row) => {
          row.blank = true
          if (step.value < 0.5) this.#touch(table, row, at, now)
          this.#note(table, row, now, step.value < 0.5)
          return true
        })
      }
      case "empty":
        return own(some(), (row) => {
          row.blank = true
        })
      case "fieldOff":
      case "fieldOn": {
        const names = hideable[table.model] ?? []
        const hidden = step.mutation === "fieldOn" ? null : names[Math.floor(step.value * names.length)] ?? null
        if (hidden === table.hiddenField) return false
        table.hiddenField = hidden
        // whether the API dates such a change is unknown, so both happen
        const announced = step.recordPick < 0.5
        return each([...table.rows], (row) => {
          if (announced) this.#touch(table, row, at, now)
          this.#note(table, row, now, announced)
          return true
        })
      }
      case "modelOff":
        return each(live, (row) => {
          row.switchedOff = true
          return own(row, flag)
        })
      case "modelOn":
        return each(table.rows.filter((row) => row.switchedOff && row.deletedAt !== null), (row) =>
          own(row, () => {
            row.switchedOff = row.blank = false
            row.deletedAt = null
          }))
      case "flagMany":
        return each(third(), (row) => own(row, flag))
      case "vanishMany":
        return each(third(), vanish)
    }
  }

  /** Adds a tag to a candidate or removes it; no application announces that. Returns false if no application shows the candidate. */
  tag(integration: string, id: string, name: string, present: boolean, now: number): boolean {
    const table = this.table(integration, "ats.application")
    const rows = table?.rows.filter((row) => `c${String(row.fields["candidate"])}` === id) ?? []
    if (table === undefined || rows.length === 0) return false
    this.#links.tag(integration, id, name, present)
    for (const row of rows) this.#note(table, row, now, false)
    return true
  }

  /** Creates an application for a job, with a new candidate; returns the record as the API shows it. */
  applyFor(integration: string, job: string, firstName: string, email: string, now: number): JsonObject {
    const table = this.table(integration, "ats.application")!
    const row = this.#insert(table, now, now, 0.9)
    Object.assign(row.fields, { candidate: 1000 + row.serial, job: Number(job.slice(1)), email })
    row.person = this.#links.change(this.#links.candidates, table.integration, 1000 + row.serial, now, firstName)
    this.#note(table, row, now, true)
    return row.history.at(-1)!.record
  }

  #create(table: Table, at: number, now: number, createdAt: number | null, value: number): boolean {
    this.#note(table, this.#insert(table, at, createdAt, value), now, true)
    return true
  }

  #insert(table: Table, at: number, createdAt: number | null, value: number): Row {
    const serial = ++table.serial
    const row: Row = {
      id: table.model === "ats.candidate"
        ? `c${serial - 1}`
        : idOf(this.#seed, table.integration, table.model, serial),
      serial,
      createdAt: createdAt === null ? null : this.#shownCreation(table, serial, createdAt),
      changedAt: at,
      stamp: undefined,
      updatedAt: at,
      matchedAt: at,
      deletedAt: null,
      switchedOff: false,
      gone: false,
      blank: false,
      reorderings: 0,
      fields: newFields(table.model, serial, value),
      person: null,
      history: []
    }
    if ("candidate" in row.fields) {
      row.person = this.#links.get(this.#links.candidates, table.integration, row.fields["candidate"])
    }
    table.byId.set(row.id, row)
    if (this.#order === "toFront") table.rows.unshift(row)
    else table.rows.push(row)
    return row
  }

  /** `remote_created_at` of a record that was created `at` this time. */
  #shownCreation({ model }: Table, serial: number, at: number): number {
    const random = new SeededRandom(hash(`creation ${this.#seed} ${model} ${serial}`))
    if (!this.#futureDates || random.boolean(0.5)) return at
    return random.pick([at + 8 * hour, this.#start + 30 * day, Date.parse("9999-12-31T23:59:59.999Z")])
  }

  #rename(
    table: Table,
    step: Mutation,
    at: number,
    now: number,
    links: Map<string, Linked>,
    shows: (row: Row) => boolean = () => true
  ): boolean {
    const number = Math.floor(step.recordPick * 3)
    const [name, announced] = links === this.#links.jobs
      ? ["job", false]
      : links === this.#links.scales
      ? ["scale", true]
      : ["candidate", true]
    const rows = table.rows.filter((row) => row.fields[name] === number && shows(row))
    if (rows.length === 0) return false
    const linked = this.#links.change(links, table.integration, number, at, `named ${Math.floor(step.value * 5)}`)
    if (links === this.#links.candidates) this.#changeListed(table.integration, number, at, now)
    for (const row of rows) {
      if (links === this.#links.candidates) row.person = linked
      if (announced) row.matchedAt = Math.max(at, row.matchedAt)
      this.#note(table, row, now, announced)
    }
    return true
  }

  /** Shows the change of a candidate in the list of candidates, if there is one. */
  #changeListed(integration: string, number: Json | undefined, at: number, now: number): void {
    const table = this.table(integration, "ats.candidate")
    const row = table?.byId.get(`c${String(number)}`)
    if (table === undefined || row === undefined || row.gone) return
    this.#touch(table, row, at, now)
    this.#note(table, row, now, true)
  }

  #touch(table: Table, row: Row, at: number, now: number): void {
    row.changedAt = Math.max(at, row.changedAt)
    row.matchedAt = Math.max(at, row.matchedAt)
    if ((this.#order !== "toEnd" && this.#order !== "toFront") || row.gone) return
    table.moves.push({ at: now, isAnnounced: at >= now && row.stamp === undefined })
    table.rows.splice(table.rows.indexOf(row), 1)
    if (this.#order === "toEnd") table.rows.push(row)
    else table.rows.unshift(row)
  }

  #note(table: Table, row: Row, now: number, announced: boolean): void {
    this.#show(table, row, now)
    if (announced) table.announced.push({ id: row.id, stamp: row.matchedAt, visibleAt: now })
  }

  #show(table: Table, row: Row, now: number): void {
    const record = render(table, row, this.#links, this.#plugins)
    const stamp = record["changed_at"]
    row.history.push({
      at: now,
      record,
      live: !row.gone && row.deletedAt === null && !row.blank,
      changedAt: typeof stamp === "string" ? Date.parse(stamp) : null
    })
  }
}
