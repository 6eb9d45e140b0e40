/** Runs the tests of a file once with each driver of Kafka. */
import { beforeAll, describe, layer as suite } from "@effect/vitest"
import type * as Vitest from "@effect/vitest"
import type * as Layer from "effect/Layer"
import { type DriverName, drivers } from "../../../src/publish/kafka/driver/Driver.ts"

let current: DriverName = "kafkajs"

/** The driver that the running test uses. */
export const currentDriver = (): DriverName => current

/**
 * `missing`: why the tests are skipped; null if they are not. `services` start once for both drivers, so each test uses its own
 * topics and files.
 */
export const describeWithDrivers = <R, E>(
  name: string,
  missing: string | null,
  services: Layer.Layer<R, E>,
  define: (it: Vitest.Vitest.MethodsNonLive<R>) => void
): void => {
  describe.skipIf(missing !== null)(`${name}${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
    // with a name, the services start in a hook; else in the first test, which has less time
    suite(services, { excludeTestServices: true, timeout: "10 minutes" })("with the driver", (it) => {
      for (const driver of drivers) {
        describe(driver, () => {
          beforeAll(() => {
            current = driver
          })
          define(it)
        })
      }
    })
  })
}
