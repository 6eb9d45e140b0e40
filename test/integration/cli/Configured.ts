/** A sandbox of one integration, and a configuration file with plugins that reads it. */
import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { freePort } from "../../support/services/FreePort.ts"
import { type Serve } from "./Program.ts"

/** The folder of Effect, for a project that writes its plugins with it. */
const effect = realpathSync(join(dirname(fileURLToPath(import.meta.url)), "../../../node_modules/effect"))

/** A sandbox, and a configuration file with these plugins. */
export const configured = async (serve: Serve, directory: string, plugins: string) => {
  const { integrations: [id], setFaults, url } = await serve({ records: 10, speed: 0, integrations: 1 })
  mkdirSync(join(directory, "node_modules"))
  symlinkSync(effect, join(directory, "node_modules/effect"))
  writeFileSync(
    join(directory, "rollcall.config.ts"),
    `import { defineConfig, secret } from "rollcall"
import * as Plugin from "rollcall/plugin"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"

export default defineConfig({
  accounts: { default: { url: "${url}", key: secret("KEY") } },
  integrations: [{ id: "${id}", models: ["ats.tag"] }],
  plugins: [${plugins}]
})
`
  )
  const port = String(await freePort())
  const environment = {
    KEY: "sandbox",
    ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
    ROLLCALL_HTTP_PORT: port
  }
  return { environment, setFaults, id: String(id), api: `http://127.0.0.1:${port}` }
}
