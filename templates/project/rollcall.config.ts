import { defineConfig } from "rollcall"
import myPlugin from "../plugin/plugin.ts"

/** The address of the API and its key come from the environment: ROLLCALL_API_URL and ROLLCALL_API_KEY. */
export default defineConfig({
  integrations: [{ id: "greenhouse:acme" }, { id: "workday:acme" }],
  plugins: [myPlugin]
})
