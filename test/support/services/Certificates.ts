/** Certificates for servers and clients of tests, made by `openssl`. */
import * as Effect from "effect/Effect"
import { execFile, spawnSync } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"

/** Why this machine cannot make certificates; null if it can. With `CI=true` a missing program is an error. */
export const missing: string | null = spawnSync("openssl", ["version"]).status === 0 ? null : "no openssl"
if (missing !== null && process.env["CI"] === "true") throw new Error(`these tests need openssl: ${missing}`)

/** Paths of PEM files. */
export interface Certificate {
  readonly certificate: string
  readonly key: string
}

/** The program and its arguments as they are started, such as with another user's id. */
type Command = (program: string, args: ReadonlyArray<string>) => readonly [string, ReadonlyArray<string>]

const create = (folder: string, file: string, args: ReadonlyArray<string>, as: Command) => {
  const made: Certificate = { certificate: join(folder, `${file}.crt`), key: join(folder, `${file}.key`) }
  const [command, all] = as("openssl", [
    ..."req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 2 -noenc".split(" "),
    "-keyout",
    made.key,
    "-out",
    made.certificate,
    ...args
  ])
  return Effect.as(Effect.promise(() => promisify(execFile)(command, all, { cwd: folder, timeout: 30_000 })), made)
}

/** An authority that signs certificates. Files are written to `folder`. */
export const authority = (folder: string, name: string, as: Command = (program, args) => [program, args]) =>
  Effect.map(create(folder, name, ["-subj", `/CN=${name}`], as), (own) => ({
    ...own,
    /** `alternative`: the names and addresses of a server, such as `DNS:localhost`. */
    sign: (subject: string, alternative = `DNS:${subject}`) =>
      create(folder, `${name}-${subject}`, [
        ..."-addext basicConstraints=critical,CA:FALSE -addext".split(" "),
        `subjectAltName=${alternative}`,
        "-subj",
        `/CN=${subject}`,
        "-CA",
        own.certificate,
        "-CAkey",
        own.key
      ], as)
  }))
