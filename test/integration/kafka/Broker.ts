/**
 * Real Kafka brokers for tests, from Maven Central's jars: one that all test files of a run share, and separate ones that a test
 * can stop and restart. With `KAFKA_BROKERS` the shared one is an existing broker.
 *
 * Invariants
 * 1. A separate broker belongs to its scope: the process and its data directory are removed when the scope closes
 * 2. A restart keeps the port and the data directory, so clients find the same broker again
 *
 * Gotchas
 * - No test may stop the shared broker. A test uses its own topics on it, and grants permissions only on these.
 * - Anonymous clients may do everything. On the SASL port `writer` may do everything, and other users nothing until a test
 *   grants them permissions.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import kafkajs from "kafkajs"
import { execFile, execFileSync, spawn } from "node:child_process"
import { createHash, randomBytes } from "node:crypto"
import { createWriteStream } from "node:fs"
import { access, cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import "../../../src/publish/kafka/driver/KafkaJsCorrections.ts"
import { cachedFolder } from "../../support/services/CachedFolder.ts"
import { freePort } from "../../support/services/FreePort.ts"
import { sharedService } from "../../support/services/SharedService.ts"

export class BrokerError extends Schema.TaggedError<BrokerError>()("BrokerError", {
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** The broker of a test. */
export class Broker extends Context.Service<Broker, {
  readonly brokers: ReadonlyArray<string>
  /** The same broker behind SASL/PLAIN and ACLs; null if the broker is that of `KAFKA_BROKERS`. */
  readonly sasl: ReadonlyArray<string> | null
  /** The address that the test's own properties may listen on; null on the shared broker. */
  readonly spare: ReadonlyArray<string> | null
  /** Sends the signal: stops the broker gracefully (`"SIGTERM"`), kills it or freezes it; waits for its end unless frozen. */
  readonly stop: (signal?: "SIGTERM" | "SIGKILL") => Effect.Effect<void, BrokerError>
  /** Starts the broker again; returns when it responds. */
  readonly start: Effect.Effect<void, BrokerError>
}>()("test/kafka/Broker") {}

const found = (command: string): boolean => {
  try {
    execFileSync(command, ["-version"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

const external = process.env.KAFKA_BROKERS?.split(",")

/** Why this machine cannot start a broker; null if it can. */
export const separateMissing: string | null = !found("java") ? "no java" : !found("mvn") ? "no mvn" : null
/** Why there is no broker for tests; null if there is one. With `CI=true` a missing broker is a failure. */
export const missing: string | null = external !== undefined || separateMissing === null
  ? null
  : `no KAFKA_BROKERS and ${separateMissing}`
/** Whether the shared broker has the users and ports that are configured here. */
export const configured = missing === null && external === undefined

if (missing !== null && process.env.CI === "true") throw new Error(`these tests need a Kafka broker: ${missing}`)

export const attempt = <A>(what: string, run: () => Promise<A>): Effect.Effect<A, BrokerError> =>
  Effect.tryPromise({ try: run, catch: (cause) => new BrokerError({ message: what, cause }) })

const exec = promisify(execFile)
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>rollcall</groupId><artifactId>test-broker</artifactId><version>1</version><dependencies>${
  ["org.apache.kafka:kafka_2.13:4.1.0", "org.apache.kafka:kafka-tools:4.1.0", "org.slf4j:slf4j-simple:1.7.36"]
    .map((name) => {
      const [group, artifact, version] = name.split(":")
      return `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`
    }).join("")
}</dependencies></project>`

/** The folder with the broker's jars. */
const jars = attempt("fetching the broker's jars with Maven", () =>
  cachedFolder("kafka/4.1.0", async (folder) => {
    await writeFile(join(folder, "pom.xml"), pom)
    const copy = ["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", `-DoutputDirectory=${folder}`]
    await exec("mvn", copy, { cwd: folder, timeout: 200_000 })
  }))

const properties = (folder: string, port: number, controller: number, sasl: number) => `
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${controller}
controller.listener.names=CONTROLLER
listeners=PLAIN://127.0.0.1:${port},SASL://127.0.0.1:${sasl},CONTROLLER://127.0.0.1:${controller}
advertised.listeners=PLAIN://127.0.0.1:${port},SASL://127.0.0.1:${sasl}
listener.security.protocol.map=PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_writer="writer-secret" user_reader="reader-secret" user_limited="limited-secret";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:writer
log.dirs=${folder}/data
auto.create.topics.enable=false
# otherwise an idle broker writes a record twice a second
metadata.max.idle.interval.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
`

/** Returns when the broker serves metadata. */
const answering = (broker: string) =>
  Effect.acquireUseRelease(
    Effect.sync(() =>
      new kafkajs.Kafka({ brokers: [broker], logLevel: kafkajs.logLevel.NOTHING, retry: { retries: 0 } }).admin()
    ),
    (admin) =>
      attempt("asking the broker", async () => {
        await admin.connect()
        await admin.listTopics()
      }),
    (admin) => Effect.promise(() => admin.disconnect())
  ).pipe(
    Effect.retry(Schedule.spaced("100 millis")),
    Effect.timeoutOrElse({
      duration: "2 minutes",
      orElse: () => Effect.fail(new BrokerError({ message: "the broker did not respond within two minutes" }))
    })
  )

/** The ports of a broker; nothing listens on `spare` unless the additional properties say so. */
export interface Ports {
  readonly plain: number
  readonly controller: number
  readonly sasl: number
  readonly spare: number
}

export interface BrokerSettings {
  /** Additional properties; a property given twice has its last value. */
  readonly properties: (ports: Ports) => string
  /** Additional arguments of the program that formats the storage, and of the Java machine. */
  readonly format?: ReadonlyArray<string>
  readonly machine?: ReadonlyArray<string>
}

/** Starts a broker whose Java machine has these arguments too. */
const startWith = Effect.fnUntraced(function*(machine: ReadonlyArray<string>, settings: string | BrokerSettings) {
  const additional = typeof settings === "string" ? { properties: () => settings } : settings
  const libraries = yield* jars
  const folder = yield* Effect.acquireRelease(
    attempt("making a data directory", () => mkdtemp(join(tmpdir(), "rollcall-kafka-"))),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
  )
  const [port, controller, sasl, spare] = yield* Effect.promise(() =>
    Promise.all([freePort(), freePort(), freePort(), freePort()])
  )
  const config = join(folder, "server.properties")
  const address = `127.0.0.1:${port}`
  const log = join(folder, "broker.log")
  const java = (...args: ReadonlyArray<string>) => [
    "-Xmx512m",
    // a broker of a test lives for seconds: less time to start matters more than speed
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    ...(additional.machine ?? []),
    ...machine,
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-cp",
    `${libraries}/*`,
    ...args
  ]
  yield* attempt("formatting the broker's storage", async () => {
    await writeFile(
      config,
      `${properties(folder, port, controller, sasl)}${additional.properties({ plain: port, controller, sasl, spare })}`
    )
    const data = join(folder, "data")
    const own = additional.format ?? []
    const format = () => {
      const bytes = randomBytes(16)
      // The text must not start with a dash, or it would be parsed as an option.
      bytes[0]! &= 0x7f
      const id = bytes.toString("base64url")
      return exec("java", java("kafka.tools.StorageTool", "format", "-t", id, "-c", config, ...own), {
        timeout: 120_000
      })
    }
    // a Java machine of its own formats the storage, so brokers copy the storage that the first one formatted with these arguments
    const given = createHash("sha256").update(JSON.stringify(own)).digest("hex").slice(0, 12)
    const formatted = await cachedFolder(`kafka/formatted-4.1.0-${given}`, async (home) => {
      await format()
      await cp(data, join(home, "data"), { recursive: true })
    })
    await cp(join(formatted, "data"), data, { recursive: true })
  })

  let running: { readonly child: ReturnType<typeof spawn>; readonly ended: Promise<void> } | null = null
  const start = Effect.suspend(() => {
    const child = spawn("java", java("kafka.Kafka", config), { stdio: ["ignore", "pipe", "pipe"] })
    const output = createWriteStream(log, { flags: "a" })
    child.stdout.pipe(output)
    child.stderr.pipe(output)
    const ended = new Promise<void>((resolve) => child.once("close", () => resolve()))
    running = { child, ended }
    const early = Effect.flatMap(
      Effect.promise(() => ended),
      () => Effect.fail(new BrokerError({ message: "the broker ended before it responded" }))
    )
    return Effect.raceFirst(answering(address), early)
  }).pipe(
    Effect.catch((error) =>
      attempt("reading the broker's log", () => readFile(log, "utf8")).pipe(
        Effect.flatMap((text) => Effect.fail(new BrokerError({ message: `${error.message}\n${text.slice(-2000)}` })))
      )
    )
  )
  const stop = (signal: "SIGTERM" | "SIGKILL" = "SIGTERM") =>
    Effect.suspend(() => {
      if (running === null) return Effect.void
      const { child, ended } = running
      running = null
      child.kill(signal)
      return attempt("waiting for the broker's end", () => ended).pipe(
        Effect.timeoutOrElse({
          // the first broker writes its classes to a file at its end
          duration: "2 minutes",
          orElse: () => {
            child.kill("SIGKILL")
            return attempt("waiting for the broker's end", () => ended)
          }
        })
      )
    })

  yield* Effect.addFinalizer(() => Effect.ignore(stop("SIGKILL")))
  yield* start
  return Broker.of({ brokers: [address], sasl: [`127.0.0.1:${sasl}`], spare: [`127.0.0.1:${spare}`], stop, start })
})

/**
 * The file of classes that the Java machine maps instead of loading and checking them, which halves the processor time of a start. A
 * broker writes it when it ends. A Java machine of another version ignores it.
 */
const classes = attempt("writing the broker's classes to a file", async () => {
  const name = "broker.jsa"
  const folder = await cachedFolder("kafka/classes", async (folder) => {
    const written = startWith([`-XX:ArchiveClassesAtExit=${join(folder, name)}`], "")
    await Effect.runPromise(Effect.scoped(Effect.flatMap(written, ({ stop }) => stop())))
    await access(join(folder, name))
  })
  return join(folder, name)
})

/** Starts a broker with these additional properties; on other ports if a program took one meanwhile. */
export const startBroker = (settings: string | BrokerSettings) =>
  Effect.flatMap(classes, (file) => startWith([`-XX:SharedArchiveFile=${file}`], settings)).pipe(
    Effect.retry({ times: 2 })
  )

/** A separate broker with these additional properties, which the test can stop. */
export const separate = (settings: string | BrokerSettings = ""): Layer.Layer<Broker, BrokerError> =>
  Layer.effect(Broker, startBroker(settings))

/** A separate broker for several tests of a file: it starts when the first one requests it. A test that stops it starts it again. */
export class Separate extends Context.Service<Separate, Effect.Effect<Broker["Service"], BrokerError>>()(
  "test/kafka/SeparateBroker"
) {}

/** The tests of a file get the separate broker with `Effect.provideServiceEffect(Broker, Effect.flatten(Separate))`. */
export const separateOnRequest = (settings: string | BrokerSettings = ""): Layer.Layer<Separate> =>
  Layer.effect(
    Separate,
    Effect.flatMap(Effect.scope, (scope) => Effect.cached(Scope.provide(startBroker(settings), scope)))
  )

const refuse = Effect.fail(new BrokerError({ message: "other tests use this broker: start a separate one to stop it" }))
const shared = external === undefined
  ? sharedService<Pick<Broker["Service"], "brokers" | "sasl">>("kafka")
  : Effect.succeed({ brokers: external, sasl: null })

/** The broker that all test files of a run share. */
export const layer: Layer.Layer<Broker, BrokerError> = shared === null
  ? separate()
  : Layer.effect(
    Broker,
    Effect.map(shared, (addresses) => ({ ...addresses, spare: null, stop: () => refuse, start: refuse }))
  )
