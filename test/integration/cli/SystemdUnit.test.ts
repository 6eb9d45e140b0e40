/** The systemd unit: its variables configure Rollcall, and its limits leave Node.js what it needs. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { inDirectory, sandboxed } from "./Program.ts"

const text = readFileSync(new URL("../../../deploy/rollcall.service", import.meta.url), "utf8")

/** The values of a setting, in order; with `#` also those that are commented out. */
const valuesOf = (name: string): ReadonlyArray<string> =>
  Array.from(text.matchAll(new RegExp(`^#?${name}=(.*)$`, "gm")), ([, value]) => value!)

describe("deploy/rollcall.service", () => {
  it("runs Rollcall with its variables, secrets and directories", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment } = await sandboxed(serve, directory)
      const places = { S: join(directory, "state"), C: join(directory, "cache"), d: join(directory, "credentials") }
      for (const place of Object.values(places)) mkdirSync(place, { mode: 0o700 })
      for (const name of ["StateDirectory", "CacheDirectory"] as const) {
        assert.deepStrictEqual(valuesOf(name), ["rollcall"])
        assert.deepStrictEqual(valuesOf(`${name}Mode`), ["0700"])
        mkdirSync(join(places[name === "StateDirectory" ? "S" : "C"], "rollcall"), { mode: 0o700 })
      }
      const { ROLLCALL_API_KEY: key = "", ROLLCALL_STORE: _, ...settings } = environment
      const [credential] = valuesOf("LoadCredential")
      assert.strictEqual(credential, "api-key:/etc/rollcall/api-key")
      writeFileSync(join(places.d, "api-key"), `${key}\n`, { mode: 0o400 })
      const variables = Array.from(text.matchAll(/^Environment=(\w+)=(.*)$/gm), ([, name, value]) => [
        name!,
        value!.replace(/%([SCd])/g, (_, place: keyof typeof places) => places[place])
      ])
      const service = start(["doctor"], { ...settings, ...Object.fromEntries(variables) })
      const { code, stderr, stdout } = await service.ended
      assert.strictEqual(code, 0, stdout + stderr)
      assert.include(stdout, join(places.S, "rollcall", "rollcall.db"))
      assert.isNotEmpty(readdirSync(join(places.C, "rollcall")))
    }))

  it("loads each secret from a file that its variable names", () => {
    const credentials = valuesOf("LoadCredential").map((value) => value.split(":"))
    for (const [name, file] of credentials) assert.strictEqual(file, `/etc/rollcall/${name}`)
    const files = valuesOf("Environment").filter((value) => value.includes("%d/"))
    assert.deepStrictEqual(files.map((value) => value.split("%d/")[1]), credentials.map(([name]) => name))
    for (const variable of files) assert.match(variable, /^[A-Z_]+_FILE=/)
  })

  it("takes away what Rollcall does not need, and nothing that Node.js needs", () => {
    for (
      const line of [
        "UMask=0077",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "CapabilityBoundingSet=",
        "LimitCORE=0",
        "MemorySwapMax=0",
        "Restart=on-failure",
        "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged @resources"
      ]
    ) {
      assert.include(text.split("\n"), line)
    }
    // the JIT compiler makes memory executable, and a watchdog would end a process whose database is slow
    assert.isEmpty([...valuesOf("MemoryDenyWriteExecute"), ...valuesOf("WatchdogSec")])
  })
})
