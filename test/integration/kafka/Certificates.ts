/** Certificates for tests, made with openssl in a temporary directory that is removed with the scope. */
import * as Effect from "effect/Effect"
import { execFile, execFileSync } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"

/** Why certificates cannot be made on this machine; null if they can. */
export const missing = ((): string | null => {
  try {
    execFileSync("openssl", ["version"], { stdio: "ignore" })
    return null
  } catch {
    return "no openssl"
  }
})()
if (missing !== null && process.env.CI === "true") throw new Error(`these tests need openssl: ${missing}`)

const openssl = (folder: string, args: string) =>
  promisify(execFile)("openssl", args.split(" "), { cwd: folder, timeout: 20_000 })
const newKey = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"

export interface Certificates {
  readonly folder: string
  readonly path: (name: string) => string
}

/**
 * `ca.pem` and `other-ca.pem`; signed by `ca`: `broker` (for 127.0.0.1 and kafka.test) and `client`; `expired`, which expired
 * yesterday; `stranger`, signed by `other-ca`. Each with its key, `<name>.key`; `broker.keystore.pem` holds both.
 */
export const certificates = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "rollcall-tls-"))),
  (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
).pipe(
  Effect.tap((folder) =>
    Effect.promise(async () => {
      for (const name of ["ca", "other-ca"]) {
        await openssl(folder, `req -x509 ${newKey} -keyout ${name}.key -out ${name}.pem -subj /CN=${name}`)
      }
      await writeFile(join(folder, "names"), "subjectAltName=IP:127.0.0.1,DNS:kafka.test")
      const signed = [
        ["broker", "ca", "1"],
        ["client", "ca", "1"],
        ["expired", "ca", "-1"],
        ["stranger", "other-ca", "1"]
      ] as const
      for (const [name, ca, days] of signed) {
        await openssl(folder, `req ${newKey} -keyout ${name}.key -out ${name}.csr -subj /CN=${name}`)
        const names = name === "broker" ? " -extfile names" : ""
        const authority = `-CA ${ca}.pem -CAkey ${ca}.key -CAcreateserial`
        await openssl(folder, `x509 -req -in ${name}.csr ${authority} -days ${days} -out ${name}.pem${names}`)
      }
      const parts = await Promise.all(["broker.key", "broker.pem"].map((name) => readFile(join(folder, name), "utf8")))
      await writeFile(join(folder, "broker.keystore.pem"), parts.join(""))
    })
  ),
  Effect.map((folder): Certificates => ({ folder, path: (name) => join(folder, name) }))
)
