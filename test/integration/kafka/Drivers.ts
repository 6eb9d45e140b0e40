/** Runs the tests of a file once with each driver of Kafka. */
import { beforeAll, describe } from "@effect/vitest"
import { type DriverName, drivers } from "../../../src/publish/kafka/driver/Driver.ts"

let current: DriverName = "kafkajs"

/** The driver that the running test uses. */
export const currentDriver = (): DriverName => current

/** `missing`: why the tests are skipped; null if they are not. */
export const describeWithDrivers = (name: string, missing: string | null, define: () => void): void => {
  for (const driver of drivers) {
    const title = `${name}, ${driver}${missing === null ? "" : ` (skipped: ${missing})`}`
    describe.skipIf(missing !== null)(title, () => {
      beforeAll(() => {
        current = driver
      })
      define()
    })
  }
}
