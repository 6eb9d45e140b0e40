/**
 * The PostgreSQL server and the Kafka broker that all test files of a run share, and the data directory with which further servers
 * start. Each is made when the first test requests it and ends with the run. Test files find this process through the variable `TEST_SERVICES`, the URL of a small HTTP server.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as Broker from "../../integration/kafka/Broker.ts"
import * as Server from "../../integration/postgres/Server.ts"

/** Called by the test runner before the first test file; the returned function is called after the last one. */
export const setup = async (): Promise<() => Promise<void>> => {
  const scope = Scope.makeUnsafe()
  const startOnce = <A, E>(start: Effect.Effect<A, E, Scope.Scope>) =>
    Effect.runSync(Effect.cached(Scope.provide(start, scope)))
  const cluster = startOnce(Server.createCluster)
  const services: Readonly<Record<string, Effect.Effect<unknown, unknown>>> = {
    "/cluster": cluster,
    "/kafka": startOnce(Effect.map(Broker.startBroker(""), ({ brokers, sasl }) => ({ brokers, sasl }))),
    "/postgres": startOnce(Effect.flatMap(cluster, Server.startCopy))
  }
  const http = createServer((request, response) => {
    void Effect.runPromiseExit(services[request.url ?? ""] ?? Effect.fail("no such service")).then((exit) => {
      response.statusCode = Exit.isSuccess(exit) ? 200 : 500
      response.end(Exit.isSuccess(exit) ? JSON.stringify(exit.value) : String(exit.cause))
    })
  })
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve))
  process.env["TEST_SERVICES"] = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  return async () => {
    http.closeAllConnections()
    http.close()
    await Effect.runPromise(Scope.close(scope, Exit.void))
  }
}
