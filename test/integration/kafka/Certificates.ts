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

/** Runs commands of an authority whose list of certificates is empty. */
const authority = async (folder: string, name: "ca" | "other-ca", ...commands: ReadonlyArray<string>) => {
  const settings = ["[ca]", "default_ca=own", "[own]", "database=index.txt", "default_md=sha256", "default_crl_days=1"]
  await writeFile(join(folder, "ca.cnf"), settings.join("\n"))
  await writeFile(join(folder, "index.txt"), "")
  for (const command of commands) {
    await openssl(folder, `ca -config ca.cnf -keyfile ${name}.key -cert ${name}.pem ${command}`)
  }
}

/** Writes `crl.pem`: the certificates that `ca` revoked. */
export const revoke = (folder: string, ...names: ReadonlyArray<string>) =>
  Effect.promise(() => authority(folder, "ca", ...names.map((name) => `-revoke ${name}.pem`), "-gencrl -out crl.pem"))

/** Writes `other-crl.pem`: the empty list of `other-ca`. */
export const revokeNone = (folder: string) =>
  Effect.promise(() => authority(folder, "other-ca", "-gencrl -out other-crl.pem"))

/** Writes `ocsp.der`: a new OCSP response of `ca`, which says that the certificate is good. Returns it. */
export const respond = (folder: string, name: string) =>
  Effect.promise(async () => {
    await authority(folder, "ca", `-valid ${name}.pem`)
    await openssl(folder, `ocsp -issuer ca.pem -cert ${name}.pem -reqout ocsp.request`)
    const signer = "-index index.txt -CA ca.pem -rsigner ca.pem -rkey ca.key -ndays 1"
    await openssl(folder, `ocsp ${signer} -reqin ocsp.request -respout ocsp.der`)
    return readFile(join(folder, "ocsp.der"))
  })

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
