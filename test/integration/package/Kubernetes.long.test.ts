/** The Kubernetes manifests. No cluster runs here: the schemas of Kubernetes check the form, and the rest is compared with the code. */
import { assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Yaml from "effect/encoding/Yaml"
import * as OpenApi from "effect/http-api/OpenApi"
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Api } from "../../../src/http/contract/Api.ts"
import { installedPackages } from "../../support/services/PythonPackages.ts"
import { acceptedSettings, argumentsOf, imageVariables, root } from "./DeployedSettings.ts"

const file = "deploy/kubernetes/rollcall.yaml"
const text = readFileSync(join(root, file), "utf8")

/** The oldest version that the file supports, and the newest when the test was written. */
const versions = ["1.30", "1.37"]

const missing = spawnSync("python3", ["-m", "pip", "--version"]).status === 0 ? null : "no python3 with pip"
if (missing !== null && process.env["CI"] === "true") throw new Error(`these tests need Python: ${missing}`)

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string; readonly scheme: string }
  readonly periodSeconds: number
  readonly failureThreshold: number
}
interface Selector {
  readonly podSelector?: { readonly matchLabels: object }
  readonly namespaceSelector?: object
}
interface Resources {
  readonly ServiceAccount: {
    readonly metadata: { readonly name: string }
    readonly automountServiceAccountToken: boolean
  }
  readonly ConfigMap: { readonly metadata: { readonly name: string }; readonly data: Readonly<Record<string, string>> }
  readonly Deployment: {
    readonly spec: {
      readonly replicas: number
      readonly strategy: { readonly type: string; readonly rollingUpdate: object }
      readonly selector: { readonly matchLabels: object }
      readonly template: { readonly metadata: { readonly labels: object }; readonly spec: Pod }
    }
  }
  readonly Service: {
    readonly spec: {
      readonly selector: object
      readonly ports: ReadonlyArray<{ readonly name: string; readonly port: number; readonly targetPort: string }>
    }
  }
  readonly PodDisruptionBudget: { readonly spec: { readonly selector: { readonly matchLabels: object } } }
  readonly NetworkPolicy: {
    readonly spec: {
      readonly podSelector: { readonly matchLabels: object }
      readonly policyTypes: ReadonlyArray<string>
      readonly ingress: ReadonlyArray<{ readonly from: ReadonlyArray<Selector>; readonly ports: ReadonlyArray<Port> }>
      readonly egress: ReadonlyArray<{ readonly to?: ReadonlyArray<Selector>; readonly ports: ReadonlyArray<Port> }>
    }
  }
}
interface Port {
  readonly protocol: string
  readonly port: number
}
interface Pod {
  readonly serviceAccountName: string
  readonly automountServiceAccountToken: boolean
  readonly enableServiceLinks: boolean
  readonly terminationGracePeriodSeconds: number
  readonly securityContext: object
  readonly containers: ReadonlyArray<{
    readonly image: string
    readonly env: ReadonlyArray<{ readonly name: string; readonly value: string }>
    readonly envFrom: ReadonlyArray<{ readonly configMapRef: { readonly name: string } }>
    readonly ports: ReadonlyArray<{ readonly name: string; readonly containerPort: number }>
    readonly startupProbe: Probe
    readonly livenessProbe: Probe
    readonly readinessProbe: Probe
    readonly lifecycle: { readonly preStop: { readonly sleep: { readonly seconds: number } } }
    readonly securityContext: object
    readonly volumeMounts: ReadonlyArray<
      { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }
    >
  }>
  readonly volumes: ReadonlyArray<{ readonly name: string; readonly secret?: { readonly secretName: string } }>
}

const resources = Object.fromEntries(
  text.split(/^---$/m).map((part) => Yaml.parse(part) as { readonly kind: string }).map((one) => [one.kind, one])
) as unknown as Resources
const { spec } = resources.Deployment
const pod = spec.template.spec
const container = pod.containers[0] ?? assert.fail("there is no container")
const probes = [container.startupProbe, container.livenessProbe, container.readinessProbe]
const policy = resources.NetworkPolicy.spec

/** Mistakes in the manifest: what is right in it, and what is wrong instead. */
const mistakes = [
  ["    spec:\n      serviceAccountName", "    spec:\n      serviceAcountName"],
  ["replicas: 3", "replicas: three"],
  ["kind: PodDisruptionBudget", "kind: PodDisruption"]
] as const

/** Results of the schemas of Kubernetes: for each manifest a line for each resource and version. */
const judgments = async (manifests: ReadonlyArray<string>): Promise<ReadonlyArray<ReadonlyArray<string>>> => {
  const packages = await installedPackages(join(import.meta.dirname, "kubernetes-validate.txt"))
  const folder = mkdtempSync(join(tmpdir(), "rollcall-manifests-"))
  try {
    const files = manifests.map((_, index) => join(folder, `${index}.yaml`))
    for (const [index, path] of files.entries()) writeFileSync(path, manifests[index]!)
    const wanted = versions.flatMap((version) => ["--kubernetes-version", version])
    const args = ["-m", "kubernetes_validate", "--strict", ...wanted, ...files]
    const { stderr, stdout } = spawnSync("python3", args, {
      env: { ...process.env, PYTHONPATH: packages },
      encoding: "utf8"
    })
    const lines = `${stdout}${stderr}`.trim().split("\n")
    return files.map((path) => lines.filter((line) => line.includes(path)))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

describe(file, () => {
  describe.skipIf(missing !== null)(
    `and the schemas of Kubernetes${missing === null ? "" : `, skipped: ${missing}`}`,
    () => {
      /** Of the manifest, then of the manifest with each mistake. */
      let judged: ReadonlyArray<ReadonlyArray<string>> = []
      beforeAll(async () => {
        judged = await judgments([text, ...mistakes.map(([right, wrong]) => text.replace(right, wrong))])
      })
      const objections = (index: number) => judged[index]!.filter((line) => !line.startsWith("INFO"))

      it("agree", () => {
        assert.lengthOf(judged[0]!, Object.keys(resources).length * versions.length)
        assert.deepStrictEqual(objections(0), [])
      })

      for (const [index, [right, wrong]] of mistakes.entries()) {
        it(`disagree if ${JSON.stringify(right)} is ${JSON.stringify(wrong)}`, () => {
          assert.include(text, right)
          assert.lengthOf(objections(index + 1), versions.length)
        })
      }
    }
  )

  it("configures Rollcall with variables that it knows, with secrets from files, and with values that it accepts", () => {
    const folder = mkdtempSync(join(tmpdir(), "rollcall-kubernetes-"))
    const secrets: Readonly<Record<string, string>> = {
      "secrets/api-key": "key",
      "secrets/database-url": "postgres://rollcall:secret@postgres.example.com:5432/rollcall?sslmode=verify-full",
      "secrets/http-token": "a-token-of-sufficient-length-0123456789"
    }
    const places = new Map(
      pod.volumes.flatMap(({ name, secret }) => secret === undefined ? [] : [[name, secret] as const])
    )
    for (const { mountPath, name, readOnly } of container.volumeMounts) {
      assert.strictEqual(readOnly === true, places.has(name), mountPath)
    }
    const own = container.env.map(({ name, value }) => {
      const [, path = ""] = /^\/etc\/rollcall\/(.*)$/.exec(value) ?? []
      assert.isTrue(
        container.volumeMounts.some(({ mountPath, name }) => value.startsWith(`${mountPath}/`) && places.has(name))
      )
      const local = join(folder, path.replace("/", "-"))
      writeFileSync(local, secrets[path] ?? "")
      return [name, local] as const
    })
    assert.deepStrictEqual(container.envFrom, [{ configMapRef: { name: resources.ConfigMap.metadata.name } }])
    const { data } = resources.ConfigMap
    assert.isEmpty(Object.keys(data).filter((name) => container.env.some((one) => one.name === name)))
    return Effect.runPromise(acceptedSettings({ ...imageVariables, ...data, ...Object.fromEntries(own) })).then(
      ({ http, kafka, store }) => {
        assert.strictEqual(store._tag, "Postgres")
        assert.deepStrictEqual(container.ports.map(({ containerPort }) => containerPort), [http.port])
        const [from] = policy.ingress
        assert.deepStrictEqual(from?.ports, [{ protocol: "TCP", port: http.port }])
        const targets = [
          ...kafka?.brokers ?? [],
          new URL(secrets["secrets/database-url"]!).host,
          `${new URL(data["ROLLCALL_API_URL"]!).hostname}:443`
        ].map((target) => Number(target.split(":")[1]))
        assert.sameMembers(policy.egress.at(-1)?.ports.map(({ port }) => port) ?? [], targets)
      }
    ).finally(() => rmSync(folder, { recursive: true }))
  })

  it("names the secrets, the account and the settings that it mounts, and creates no secret", () => {
    for (const { secret } of pod.volumes) if (secret !== undefined) assert.include(text, `${secret.secretName} --`)
    assert.notProperty(resources, "Secret")
    assert.strictEqual(pod.serviceAccountName, resources.ServiceAccount.metadata.name)
  })

  it("probes paths of the operating API at its port, without a token", () => {
    const { paths } = OpenApi.fromApi(Api)
    const [port] = container.ports
    for (const { httpGet: { path, port: name, scheme } } of probes) {
      assert.property(paths, path)
      assert.match(path, /^\/health\//)
      assert.deepStrictEqual([name, scheme], [port?.name, "HTTPS"])
    }
    assert.notStrictEqual(container.livenessProbe.httpGet.path, "/health/ready")
    assert.deepStrictEqual(resources.Service.spec.ports, [{ name: "https", port: 8477, targetPort: "https" }])
  })

  it("gives a migration the 15 minutes that it may take", () => {
    const { failureThreshold, periodSeconds } = container.startupProbe
    assert.isAtLeast(failureThreshold * periodSeconds, 15 * 60)
  })

  it("gives a process as much time to stop as the systemd unit does, besides the pause before", () => {
    const unit = readFileSync(join(root, "deploy/rollcall.service"), "utf8")
    const [, seconds] = /^TimeoutStopSec=(\d+)s$/m.exec(unit) ?? []
    assert.strictEqual(
      pod.terminationGracePeriodSeconds,
      Number(seconds) + container.lifecycle.preStop.sleep.seconds
    )
  })

  it("replaces processes one by one, without having fewer", () => {
    assert.isAtLeast(spec.replicas, 2)
    assert.deepStrictEqual(spec.strategy, { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } })
  })

  it("selects the same processes everywhere", () => {
    const { labels } = spec.template.metadata
    for (
      const selected of [
        spec.selector.matchLabels,
        resources.Service.spec.selector,
        resources.PodDisruptionBudget.spec.selector.matchLabels,
        policy.podSelector.matchLabels
      ]
    ) assert.deepStrictEqual(selected, labels)
  })

  it("runs the image without rights, without an account at Kubernetes, and with a read-only file system", () => {
    const [user] = argumentsOf("USER")
    assert.deepStrictEqual(pod.securityContext, {
      runAsNonRoot: true,
      runAsUser: 1000,
      runAsGroup: 1000,
      fsGroup: 1000,
      seccompProfile: { type: "RuntimeDefault" }
    })
    assert.strictEqual(user, "1000:1000")
    assert.deepStrictEqual(container.securityContext, {
      allowPrivilegeEscalation: false,
      privileged: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] }
    })
    assert.isFalse(pod.automountServiceAccountToken)
    assert.isFalse(resources.ServiceAccount.automountServiceAccountToken)
    assert.isFalse(pod.enableServiceLinks)
    assert.strictEqual(
      container.image,
      `rollcall:${JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version}`
    )
  })

  it("limits connections in both directions, and allows none between its processes", () => {
    assert.deepStrictEqual(policy.policyTypes, ["Ingress", "Egress"])
    assert.isNotEmpty(policy.ingress)
    const own = Object.entries(spec.template.metadata.labels)
    for (const { podSelector } of policy.ingress.flatMap(({ from }) => from)) {
      if (podSelector === undefined) continue
      const wanted = Object.entries(podSelector.matchLabels)
      assert.isNotEmpty(wanted.filter(([name, value]) => !own.some((label) => label[0] === name && label[1] === value)))
    }
    for (const { from } of policy.ingress) assert.isNotEmpty(from)
  })
})
