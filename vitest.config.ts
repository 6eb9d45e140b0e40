import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { LongestFirst } from "./test/LongestFirst.ts"

/**
 * The tests in four projects. `unit` needs no services. `integration` uses real databases, brokers, sockets and processes. `long` does too,
 * for subjects that few changes concern or that take minutes. `worlds` simulates, in a process for each core.
 */
const shared = {
  // test files share their worker: no test depends on the global state of another
  isolate: false,
  testTimeout: 180_000,
  hookTimeout: 300_000,
  silent: "passed-only",
  // processes that tests start load compiled code from here, which halves the processor time of their start. Commands of `rollcall`
  // but `start` do not get this variable, because the program has a cache of its own
  env: { NODE_COMPILE_CACHE: fileURLToPath(new URL(".cache/compiled", import.meta.url)) }
} as const

const services = "test/support/services/SharedServices.ts"

/** They need no services, but seconds of processor time, so `npm run test:fast` leaves them out and `npm test` runs them. */
const slowUnits = [
  "src/capture/read/Refresh.test.ts",
  "src/capture/schedule/Scheduling.test.ts",
  "src/delivery/engine/{Fleet,FleetCircuits,Ticks,Watchdog}.test.ts",
  "src/delivery/engine/{Fleet,Restarts}.property.test.ts",
  "src/domain/Canonical.property.test.ts",
  "src/publish/{Progress,Retention}.test.ts",
  "src/sandbox/world/World.property.test.ts",
  "src/source/Proof.test.ts",
  "src/source/SharedBudget.property.test.ts"
]

/** Runs processes of its own, one for each core. */
const worlds = ["test/simulation/Simulation.long.test.ts"]

export default defineConfig({
  test: {
    ...shared,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          ...shared,
          name: "unit",
          include: ["{src,console,plugins}/**/*.test.ts", "test/*.test.ts", "test/prose/*.test.ts"],
          exclude: slowUnits
        }
      },
      {
        test: {
          ...shared,
          name: "integration",
          include: ["test/{conformance,fault,integration,simulation}/**/*.test.ts", ...slowUnits],
          exclude: ["**/*.long.test.ts"],
          globalSetup: services
        }
      },
      {
        test: {
          ...shared,
          name: "long",
          include: [
            "test/**/*.long.test.ts",
            // the properties whose number of runs depends on the size
            "src/capture/{commit/Histories,derived/Candidates,forget/Forgetting}.property.test.ts",
            "src/config/MisplacedSecrets.property.test.ts",
            "src/delivery/engine/{Fleet,Restarts}.property.test.ts",
            "src/{domain/Canonical,publish/Adoption,source/SharedBudget}.property.test.ts"
          ],
          exclude: worlds,
          env: { ...shared.env, PROPERTY_RUNS: "10" },
          testTimeout: 1_200_000,
          globalSetup: services
        }
      },
      { test: { ...shared, name: "worlds", include: worlds } }
    ]
  }
})
