/**
 * Stock programs that read the topics, from Maven Central: Kafka Connect with Debezium's JDBC sink, Flink SQL, Kafka Streams. They run what
 * `docs/connect.md` shows.
 *
 * Gotchas
 * - Version 3.5 of the sink is the newest one whose dependencies Maven Central resolves for Java 17, which Debian 12 has.
 */
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { cachedFolder } from "../../support/services/CachedFolder.ts"

const exec = promisify(execFile)

const connect = [
  "org.apache.kafka:connect-runtime:4.1.0",
  "org.apache.kafka:connect-json:4.1.0",
  "io.debezium:debezium-connector-jdbc:3.5.0.Final"
]
const flink = [
  ...["table-planner-loader", "table-runtime", "table-api-java-bridge", "clients", "json", "connector-base"].map((
    name
  ) => `org.apache.flink:flink-${name}:2.2.1`),
  "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2"
]
const streams = ["org.apache.kafka:kafka-streams:4.1.0"]

const dependency = (name: string): string => {
  const [group, artifact, version] = name.split(":")
  return `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`
}

/** The folder with these artifacts and what they need. */
const jars = (name: string, artifacts: ReadonlyArray<string>) => () =>
  cachedFolder(name, async (folder) => {
    await writeFile(
      join(folder, "pom.xml"),
      `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>rollcall</groupId><artifactId>test</artifactId><version>1</version>
<dependencies>${[...artifacts, "org.slf4j:slf4j-simple:1.7.36"].map(dependency).join("")}</dependencies></project>`
    )
    const copy = ["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", `-DoutputDirectory=${folder}`]
    await exec("mvn", copy, { cwd: folder, timeout: 300_000 })
  })
export const connectJars = jars("connect/4.1.0-3.5.0", connect)
export const flinkJars = jars("flink/2.2.1", flink)
export const streamsJars = jars("kafka-streams/4.1.0", streams)

/** The blocks of a language in `docs/connect.md`, in their order. */
export const documented = (language: string): ReadonlyArray<string> => {
  const page = readFileSync(new URL("../../../docs/connect.md", import.meta.url), "utf8")
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\``, "gm"))].map(([, text = ""]) => text)
}

/** Replaces the values of properties; fails for a property that the text does not have. */
export const withValues = (text: string, values: Readonly<Record<string, string>>): string =>
  Object.entries(values).reduce((all, [name, value]) => {
    const line = new RegExp(`^${name.replaceAll(".", "\\.")}=.*$`, "m")
    if (!line.test(all)) throw new Error(`the documented configuration has no ${name}`)
    return all.replace(line, () => `${name}=${value}`)
  }, text)

/** The arguments of a Java machine for a class, or for a file with its source, with these jars. */
export const machineArguments = (folder: string, ...program: ReadonlyArray<string>): ReadonlyArray<string> => [
  "-Xmx700m",
  "-XX:TieredStopAtLevel=1",
  "-XX:+UseSerialGC",
  // of Flink
  "--add-opens=java.base/java.util=ALL-UNNAMED",
  "--add-opens=java.base/java.lang=ALL-UNNAMED",
  "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
  "-cp",
  `${folder}/*`,
  ...program
]
