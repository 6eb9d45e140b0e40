/**
 * A store that can be copied and replaced by its copy, as an operator does with a file: hides the files and the connections.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Deliveries } from "../../src/store/Deliveries.ts"
import { Health } from "../../src/store/Health.ts"
import * as SqlDeliveries from "../../src/store/SqlDeliveries.ts"
import * as Sqlite from "../../src/store/Sqlite.ts"
import * as SqlStore from "../../src/store/SqlStore.ts"
import { Store } from "../../src/store/Store.ts"
import type { VirtualTime } from "./VirtualTime.ts"

export class Backup {
  readonly #time: VirtualTime
  readonly #scope = Effect.runSync(Scope.make())
  #directory: string | null = null
  #copies = 0
  #services: Context.Context<Store | Deliveries | SqlClient.SqlClient | Health>

  constructor(time: VirtualTime) {
    this.#time = time
    this.#services = this.#open(":memory:")
  }

  get store(): Store["Service"] {
    return Context.get(this.#services, Store)
  }

  get deliveries(): Deliveries["Service"] {
    return Context.get(this.#services, Deliveries)
  }

  /** Copies the store as it stands. */
  copy(): string {
    this.#directory ??= mkdtempSync(join(tmpdir(), "rollcall-simulation-"))
    const file = join(this.#directory, `copy-${++this.#copies}.db`)
    const sql = Context.get(this.#services, SqlClient.SqlClient)
    this.#time.run(sql`VACUUM INTO ${file}`, Infinity)
    return file
  }

  /** From now on the store is the one in `file`. */
  restore(file: string): void {
    this.#services = this.#open(file)
  }

  /** From now on the store is a new, empty one. */
  replace(): void {
    this.#services = this.#open(":memory:")
  }

  /** As whoever starts next finds it: a store tells its identity once. */
  reopen(): void {
    const client = Context.pick(SqlClient.SqlClient, Health)(this.#services)
    const layer = SqlDeliveries.layer.pipe(
      Layer.provideMerge(SqlStore.layer),
      Layer.provide(Layer.succeedContext(client))
    )
    this.#services = Context.merge(client, this.#time.run(Layer.buildWithScope(layer, this.#scope), Infinity)!)
  }

  close(): void {
    this.#time.run(Scope.close(this.#scope, Exit.void), Infinity)
    if (this.#directory !== null) rmSync(this.#directory, { recursive: true })
  }

  #open(file: string): Context.Context<Store | Deliveries | SqlClient.SqlClient | Health> {
    const layer = SqlDeliveries.layer.pipe(
      Layer.provideMerge(SqlStore.layer),
      Layer.provideMerge(Sqlite.client({ file }))
    )
    const services = this.#time.run(Layer.buildWithScope(layer, this.#scope), Infinity)
    if (services === undefined) throw new Error("the store did not open")
    // processes die in this simulation, machines do not: waiting for a disk would be a fifth of its time
    this.#time.run(Context.get(services, SqlClient.SqlClient)`PRAGMA synchronous = OFF`, Infinity)
    return services
  }
}
