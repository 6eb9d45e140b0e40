/** The records of one list, with every state of each that the API ever showed. */
import type { SimulatedModel } from "./DefinedModels.ts"

export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }
export type JsonObject = Record<string, Json>

/** One state of a record as the API shows it. */
export interface RecordState {
  /** Server time (ms). */
  readonly at: number
  readonly record: JsonObject
  readonly live: boolean
  /** `changed_at` as shown, in ms. */
  readonly changedAt: number | null
}

export interface Row {
  readonly id: string
  readonly serial: number
  /** `remote_created_at` as shown; null: not shown. */
  readonly createdAt: number | null
  changedAt: number
  /** Replaces `changed_at` unless undefined. */
  stamp: string | null | undefined
  updatedAt: number
  /** The time that `updated_after` compares with. */
  matchedAt: number
  deletedAt: number | null
  /** Deleted because its model was switched off. */
  switchedOff: boolean
  gone: boolean
  blank: boolean
  /** Counts the reorderings of keys and arrays. */
  reorderings: number
  readonly fields: JsonObject
  /** The application's own copy of the candidate. */
  person: Linked | null
  readonly history: Array<RecordState>
}

/** A change that the API announces: it matches `updated_after` values up to `stamp`, from `visibleAt` on. */
export interface AnnouncedChange {
  readonly id: string
  readonly stamp: number
  readonly visibleAt: number
}

/** A linked record that several records embed. */
export interface Linked {
  readonly name: string
  /** Server time (ms). */
  readonly changedAt: number
}

export class Table {
  readonly model: SimulatedModel
  readonly integration: string
  /** In list order, without vanished records. */
  readonly rows: Array<Row> = []
  readonly byId = new Map<string, Row>()
  readonly announced: Array<AnnouncedChange> = []
  /** When a row left its position in the list (ms of the server's clock), and whether a later page shows the move. */
  readonly moves: Array<{ readonly at: number; readonly isAnnounced: boolean }> = []
  /** The field that the scope configuration removes. */
  hiddenField: string | null = null
  serial = 0

  constructor(integration: string, model: SimulatedModel) {
    this.integration = integration
    this.model = model
  }
}
