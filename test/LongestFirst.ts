/**
 * The order of test files: those that take longest begin first, so that the last one does not run alone on one of two cores. Most of
 * them wait for time limits, so the files after them use the processors meanwhile.
 *
 * Gotchas
 * - The test runner knows how long files take only after it has run them once: a new clone would begin with the largest files.
 */
import { relative } from "node:path"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Files that take more than 20 seconds, about the longest first. */
export const longest: ReadonlyArray<string> = [
  "test/integration/alerts/Feed.long.test.ts",
  "test/integration/bench/Bench.long.test.ts",
  "test/integration/publish/KafkaSecurity.long.test.ts",
  "test/integration/examples/Examples.long.test.ts",
  "test/fault/fleet/Storm.long.test.ts",
  "test/integration/alerts/Plugins.long.test.ts",
  "test/integration/alerts/Postgres.long.test.ts",
  "test/integration/postgres/Silence.test.ts",
  "test/integration/publish/Kafka.test.ts",
  "test/integration/cli/Cli.test.ts",
  "test/integration/publish/Relay.test.ts",
  "test/integration/publish/Loss.test.ts",
  "test/integration/package/Package.long.test.ts",
  "test/integration/site/Site.long.test.ts",
  // not at the start, when the types are checked too: it limits the time of answers
  "test/integration/postgres/Outage.test.ts",
  "test/fault/kill/StepKafka.long.test.ts",
  "test/integration/fleet/Keys.long.test.ts",
  "test/integration/console/Incidents.long.test.ts",
  "test/fault/kill/Kill.long.test.ts",
  "test/fault/kill/Step.long.test.ts",
  "src/capture/forget/Forgetting.property.test.ts",
  "test/fault/kill/Writes.test.ts",
  "test/conformance/PostgresStore.test.ts",
  "test/integration/postgres/FailoverService.long.test.ts",
  "test/integration/console/Pages.test.ts",
  "test/integration/publish/Registry.long.test.ts",
  "test/integration/fleet/FailedSteps.long.test.ts",
  "test/integration/postgres/Postgres.test.ts",
  "test/integration/postgres/Service.test.ts",
  "test/integration/publish/Forms.test.ts",
  "test/integration/console/Actions.test.ts",
  "test/integration/publish/Refusals.long.test.ts",
  "test/fault/kill/SlowDisk.long.test.ts",
  "test/fault/kill/Frozen.test.ts",
  "test/integration/fleet/Takeover.long.test.ts",
  "test/integration/telemetry/Collector.long.test.ts",
  "test/integration/cli/PluginsDev.test.ts"
]

export class LongestFirst extends BaseSequencer {
  override async sort(files: ReadonlyArray<TestSpecification>): Promise<Array<TestSpecification>> {
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const rank = longest.indexOf(relative(this.ctx.config.root, moduleId))
      return rank === -1 ? longest.length : rank
    }
    // files without a rank keep the order of the test runner, which does not mix projects
    return (await super.sort([...files])).sort((one, other) => rankOf(one) - rankOf(other))
  }
}
