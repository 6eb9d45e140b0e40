/** `rollcall init`: creates a project with a configuration file, a plugin and its test, a compose file and a workflow for CI. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { randomBytes } from "node:crypto"
import { existsSync, readdirSync } from "node:fs"
import { basename, resolve } from "node:path"
import { version } from "../http/contract/Version.ts"
import { createFiles, creating, filesOfPlugin, importNameOf, template } from "./NewPluginCommand.ts"
import { effectRange } from "./Project.ts"
import { json } from "./terminal/Flags.ts"
import { CommandError } from "./terminal/Process.ts"

/** The plugin of a new project. */
const plugin = "tag-hires"

/** The files whose text is a template, by the name of the template. npm leaves files with the name `.gitignore` out of a package. */
const templates = {
  "tsconfig.json": "tsconfig.json",
  "rollcall.config.ts": "rollcall.config.ts",
  "docker-compose.yml": "docker-compose.yml",
  "ci.yml": ".github/workflows/ci.yml",
  gitignore: ".gitignore"
}

const manifestOf = (name: string) => ({
  name,
  private: true,
  type: "module",
  scripts: {
    start: "rollcall start",
    dev: `rollcall plugins dev ${plugin}`,
    check: "tsc --noEmit",
    test: `node --test "plugins/**/*.test.ts"`
  },
  dependencies: { effect: effectRange(), rollcall: version },
  devDependencies: { "@types/node": "^24", typescript: "^7" }
})

/** A name that npm accepts, made of the name of the folder. */
const packageNameOf = (folder: string): string =>
  basename(resolve(folder)).toLowerCase().replaceAll(/[^a-z0-9-]+/g, "-").replaceAll(/^-+|-+$/g, "") || "my-feed"

const createProject = (folder: string) => {
  if (existsSync(folder) && readdirSync(folder).some((name) => name !== ".git")) {
    throw new CommandError({
      message: `${folder} is not empty; nothing was changed`,
      hint:
        "Choose another folder. In a project that has Rollcall already, `rollcall plugins new <name>` adds a plugin."
    })
  }
  const adapted = (text: string) =>
    text.replaceAll("../plugin/plugin.ts", `./plugins/${plugin}/plugin.ts`).replaceAll("myPlugin", importNameOf(plugin))
  const files = {
    "package.json": `${JSON.stringify(manifestOf(packageNameOf(folder)), null, 2)}\n`,
    ".env": `ROLLCALL_HTTP_TOKEN=${randomBytes(32).toString("hex")}\n`,
    ...Object.fromEntries(
      Object.entries(templates).map(([name, path]) => [path, adapted(template(`project/${name}`))])
    ),
    ...filesOfPlugin(plugin, false, false)
  }
  createFiles(folder, files)
  const next = [`cd ${folder}`, "npm install", "npm test", "npm run dev"]
  const text = [
    `created ${folder}: ${Object.keys(files).join(", ")}`,
    "",
    "Next:",
    ...next.map((step) => `  ${step}`),
    "",
    "Name your integrations in rollcall.config.ts. `docker compose up` runs the project against a simulated API."
  ].join("\n")
  return { folder, files: Object.keys(files), next, text }
}

export const init = Command.make("init", {
  folder: Argument.String("folder").pipe(
    Argument.withDescription("Folder of the project; it is created if it does not exist")
  ),
  json
}, ({ folder, json }) => creating(() => createProject(folder), json)).pipe(
  Command.withDescription(
    "Create a project with a configuration file, a plugin and its test, a compose file and a workflow for CI"
  ),
  Command.withExamples([{ command: "npx rollcall init my-feed", description: "Create the folder my-feed" }])
)
