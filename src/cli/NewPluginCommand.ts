/** `rollcall plugins new`: creates a plugin from a template. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { switchFlag } from "./Flags.ts"
import { CommandError, print, withTerminalErrors } from "./Process.ts"

/** The folder `templates` is next to `src/` in a clone, and next to `dist/` in the package. */
const template = (name: string): string =>
  readFileSync(fileURLToPath(new URL(`../../templates/${name}`, import.meta.url)), "utf8")

const name = Argument.String("name").pipe(
  Argument.filter(
    (text) => /^[a-z][a-z0-9-]{0,62}$/.test(text),
    (text) => `"${text}" is not a plugin name; use lower-case letters, digits and hyphens, and start with a letter`
  ),
  Argument.withDescription(
    "Name of the plugin and its folder: lower-case letters, digits and hyphens. A plugin cannot be renamed later"
  )
)

/** The package.json of the working directory; an empty object if there is none. */
const readPackageJson = (): { readonly name?: unknown; readonly type?: unknown } =>
  existsSync("package.json") ? JSON.parse(readFileSync("package.json", "utf8")) : {}

const camelCase = (name: string): string => name.replaceAll(/-+(.?)/g, (_, letter: string) => letter.toUpperCase())

const createPlugin = (name: string, effect: boolean) => {
  const folder = `plugins/${name}`
  if (existsSync(folder)) {
    throw new CommandError({
      message: `${folder} already exists; nothing was changed`,
      hint: "Choose another name."
    })
  }
  const own = readPackageJson()
  const inClone = own.name === "rollcall"
  const adaptTemplate = (text: string) =>
    (inClone ? text.replaceAll(/"rollcall\/(plugin|testing)"/g, '"#$1"') : text)
      .replaceAll("my-plugin", name)
      .replaceAll("myPlugin", camelCase(name))
  mkdirSync(folder, { recursive: true })
  const files = {
    "plugin.ts": effect ? "plugin.effect.ts" : "plugin.ts",
    "plugin.test.ts": "plugin.test.ts",
    "README.md": "README.md"
  }
  for (const [file, from] of Object.entries(files)) {
    writeFileSync(`${folder}/${file}`, adaptTemplate(template(`plugin/${from}`)), { flag: "wx" })
  }
  const untyped = !existsSync("tsconfig.json")
  if (untyped) writeFileSync("tsconfig.json", template("tsconfig.json"))
  const steps = [
    ...(own.type === "module" ? [] : ["npm pkg set type=module"]),
    `node --test ${folder}/plugin.test.ts`,
    ...(inClone ? [] : ["npm install --save-dev typescript @types/node"]),
    "npx tsc --noEmit"
  ]
  return [
    `created ${folder}: plugin.ts, plugin.test.ts, README.md${untyped ? "; and tsconfig.json" : ""}`,
    "",
    "Next:",
    ...steps.map((step) => `  ${step}`),
    "",
    `Then write your handlers in ${folder}/plugin.ts, and add the plugin to rollcall.config.ts as its README.md shows.`
  ].join("\n")
}

export const newPlugin = Command.make("new", {
  name,
  effect: switchFlag("effect", "Write the handler as an Effect instead of an async function")
}, ({ effect, name }) =>
  Effect.try({
    try: () => createPlugin(name, effect),
    catch: (error) =>
      error instanceof CommandError
        ? error
        : new CommandError({
          message: error instanceof Error ? error.message : String(error),
          hint: "Run the command in the folder of your project, and check that you may write there."
        })
  }).pipe(Effect.flatMap(print), withTerminalErrors)).pipe(
    Command.withDescription("Create plugins/<name> with a plugin, its test and a README"),
    Command.withExamples([{
      command: "rollcall plugins new tag-hires",
      description: "Afterwards run: node --test plugins/tag-hires"
    }])
  )
