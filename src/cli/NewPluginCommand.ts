/** `rollcall plugins new`: creates a plugin from a template. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { addEffect, effectOf, effectRange, isClone, readProject, requireRightEffect } from "./Project.ts"
import { json, switchFlag } from "./terminal/Flags.ts"
import { CommandError, print, withTerminalErrors } from "./terminal/Process.ts"

/** The folder `templates` is next to `src/` in a clone, and next to `dist/` in the package. */
const template = (name: string): string =>
  readFileSync(fileURLToPath(new URL(`../../templates/${name}`, import.meta.url)), "utf8")

const name = Argument.String("name").pipe(
  Argument.filter(
    (text) => /^[a-z][a-z0-9-]{0,62}$/.test(text),
    (text) =>
      `"${text}" is not a plugin name; use lower-case letters, digits and hyphens, at most 63 characters, and start with a letter`
  ),
  Argument.withDescription(
    "Name of the plugin and its folder: lower-case letters, digits and hyphens. A plugin cannot be renamed later"
  )
)

/**
 * The name under which the README imports a plugin: `tagHiresPlugin`. It ends in `Plugin`, so it is not a reserved word, such as `delete`, and
 * not the name of another import. Exported for its test.
 */
export const importNameOf = (name: string): string => {
  const camelCase = name.replaceAll(/-+(.?)/g, (_, letter: string) => letter.toUpperCase())
  return /[a-z\d]Plugin$/.test(camelCase) ? camelCase : `${camelCase}Plugin`
}

/** The lockfile shows which package manager the project uses. */
const packageManagerOf = (): "npm" | "pnpm" | "yarn" =>
  existsSync("pnpm-lock.yaml") ? "pnpm" : existsSync("yarn.lock") ? "yarn" : "npm"

const installTools = { npm: "npm install --save-dev", pnpm: "pnpm add --save-dev", yarn: "yarn add --dev" }

const createPlugin = (name: string, effect: boolean) => {
  const folder = `plugins/${name}`
  if (existsSync(folder)) {
    throw new CommandError({
      message: `${folder} already exists; nothing was changed`,
      hint: "Choose another name."
    })
  }
  const project = readProject()
  const inClone = isClone(project)
  const addsEffect = !inClone && effectOf(project) === null
  if (!inClone) requireRightEffect(project)
  const adaptTemplate = (text: string) =>
    (inClone
      ? text.replaceAll(/"rollcall\/(plugin|testing)"/g, '"#$1"').replaceAll("node_modules/rollcall/docs", "docs")
      : text)
      .replaceAll("my-plugin", name)
      .replaceAll("myPlugin", importNameOf(name))
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
  if (addsEffect) addEffect(project)
  const manager = packageManagerOf()
  const steps = [
    ...(project.type === "module" ? [] : ["npm pkg set type=module"]),
    ...(addsEffect ? [`${manager} install`] : []),
    `node --test ${folder}/plugin.test.ts`,
    ...(inClone ? [] : [`${installTools[manager]} typescript @types/node`]),
    manager === "npm" ? "npx tsc --noEmit" : `${manager} exec tsc --noEmit`
  ]
  const text = [
    `created ${folder}: plugin.ts, plugin.test.ts, README.md${untyped ? "; and tsconfig.json" : ""}`,
    ...(addsEffect
      ? [`added effect ${effectRange()} to package.json: plugins and Rollcall must use the same Effect`]
      : []),
    "",
    "Next:",
    ...steps.map((step) => `  ${step}`),
    "",
    `Then write your handlers in ${folder}/plugin.ts, and add the plugin to rollcall.config.ts as its README.md shows.`
  ].join("\n")
  return { folder, files: Object.keys(files), next: steps, text }
}

export const newPlugin = Command.make("new", {
  name,
  effect: switchFlag("effect", "Write the handler as an Effect instead of an async function"),
  json
}, ({ effect, json, name }) =>
  Effect.try({
    try: () => createPlugin(name, effect),
    catch: (error) =>
      error instanceof CommandError
        ? error
        : new CommandError({
          message: error instanceof Error ? error.message : String(error),
          hint: "Run the command in the folder of your project, and check that you may write there."
        })
  }).pipe(
    Effect.flatMap(({ text, ...created }) => print(json ? JSON.stringify(created) : text)),
    withTerminalErrors
  )).pipe(
    Command.withDescription("Create plugins/<name> with a plugin, its test and a README"),
    Command.withExamples([{
      command: "npx --no rollcall plugins new tag-hires && node --test plugins/tag-hires/plugin.test.ts",
      description: "Create a plugin and run its test"
    }])
  )
