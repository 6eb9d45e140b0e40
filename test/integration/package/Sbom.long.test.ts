/** The SBOM of `npm run sbom` against the lockfile. */
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "vitest"
import { bundledPackages } from "../../../console/Build.ts"

interface Component {
  readonly "bom-ref": string
  readonly name: string
  readonly version: string
  readonly purl: string
  readonly hashes?: ReadonlyArray<{ readonly alg: string; readonly content: string }>
  readonly licenses?: ReadonlyArray<unknown>
}

interface Bom {
  readonly bomFormat: string
  readonly specVersion: string
  readonly serialNumber: string
  readonly metadata: { readonly component: Component }
  readonly components: ReadonlyArray<Component>
  readonly dependencies: ReadonlyArray<{ readonly ref: string; readonly dependsOn: ReadonlyArray<string> }>
}

const root = fileURLToPath(new URL("../../..", import.meta.url))
const json = (name: string) => JSON.parse(readFileSync(`${root}${name}`, "utf8"))
const bom: Bom = JSON.parse(execFileSync(process.execPath, ["sbom.ts"], { cwd: root, encoding: "utf8", stdio: "pipe" }))
const subject = bom.metadata.component

describe("the SBOM", () => {
  it("is a CycloneDX document of this version of Rollcall", () => {
    const { name, version } = json("package.json")
    assert.strictEqual(bom.bomFormat, "CycloneDX")
    assert.match(bom.specVersion, /^1\.\d$/)
    assert.match(bom.serialNumber, /^urn:uuid:[0-9a-f-]{36}$/)
    assert.deepStrictEqual([subject.name, subject.version, subject.purl], [name, version, `pkg:npm/${name}@${version}`])
  })

  it("has every package that an installation without development dependencies has, or whose code is in the console, and no other", () => {
    const packages: Readonly<Record<string, { readonly version: string; readonly dev?: boolean }>> =
      json("package-lock.json").packages
    const isBundled = (path: string) => bundledPackages.some((name) => path === `node_modules/${name}`)
    const installed = Object.entries(packages)
      .filter(([path, { dev }]) => path !== "" && (dev !== true || isBundled(path)))
      .map(([path, { version }]) =>
        `${path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)}@${version}`
      )
    assert.sameMembers(bom.components.map(({ name, version }) => `${name}@${version}`), installed)
    assert.includeMembers(installed.map((name) => name.replace(/@[^@]*$/, "")), [
      "effect",
      "kafkajs",
      "preact",
      "undici"
    ])
  })

  it("has a purl, a hash and a license of every package, and each dependency refers to one of them", () => {
    for (const { hashes, licenses, name, purl, version } of bom.components) {
      assert.strictEqual(purl, `pkg:npm/${name.replace("@", "%40")}@${version}`)
      assert.match(hashes?.find(({ alg }) => alg === "SHA-512")?.content ?? "", /^[0-9a-f]{128}$/, name)
      assert.isNotEmpty(licenses ?? [], name)
    }
    const known = new Set([subject, ...bom.components].map((component) => component["bom-ref"]))
    for (const { dependsOn, ref } of bom.dependencies) {
      for (const name of [ref, ...dependsOn]) assert.isTrue(known.has(name), name)
    }
    const reached = new Set(bom.dependencies.flatMap(({ dependsOn }) => dependsOn))
    assert.sameMembers([...reached], bom.components.map((component) => component["bom-ref"]))
  })
})
