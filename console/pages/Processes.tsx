/** The processes that share the store, and the work of each. */
import type { FleetView, ProcessView } from "../../src/http/fleet/FleetApi.ts"
import { duration, number } from "../Format.ts"
import { At, Badge, Scroll, Title } from "../parts/Basics.tsx"
import { Loaded, useResource } from "../parts/Resource.tsx"

const workOf = ({ dispatches, publishes, shards }: ProcessView): string =>
  [`${number(shards)} of 64 shards`, ...publishes ? ["publishes"] : [], ...dispatches ? ["dispatches"] : []].join(", ")

export const ProcessesPage = () => {
  const fleet = useResource<FleetView>("/v1/fleet")
  return (
    <>
      <Title text="Processes" />
      <Loaded resource={fleet}>
        {({ items, versions }) => (
          <>
            {versions.length > 1
              ? <p class="notice warn">The processes run different versions: {versions.join(", ")}</p>
              : null}
            <Scroll label="Processes">
              <table>
                <thead>
                  <tr>
                    <th>Process</th>
                    <th>State</th>
                    <th>Version</th>
                    <th>Work</th>
                    <th>Started</th>
                    <th class="n">Last heartbeat</th>
                    <th class="n">Clock</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((process) => (
                    <tr key={process.id}>
                      <th scope="row">
                        {process.host}, {process.pid}
                        {process.current ? " (this one)" : ""}
                      </th>
                      <td class="state">
                        <Badge tone={process.state === "silent" || process.problems.length > 0 ? "bad" : "good"}>
                          {process.state}
                        </Badge>
                        {process.problems.map(({ name, reason }) => <p key={name} class="cause">{name}: {reason}</p>)}
                      </td>
                      <td>{process.version}</td>
                      <td>{workOf(process)}</td>
                      <td>
                        <At at={process.started_at} />
                      </td>
                      <td class="n">{duration(process.silence_seconds)} ago</td>
                      <td class="n">
                        {process.clock_offset_seconds === null
                          ? "–"
                          : `${process.clock_offset_seconds.toFixed(1)} s ahead`}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
          </>
        )}
      </Loaded>
    </>
  )
}
