/** `rollcall plugins new`: creates a plugin from a template. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { addEffect, effectOf, effectRange, isClone, readProject, requireRightEffect } from "./Project.ts"
import { json, switchFlag } from "./terminal/Flags.ts"
import { CommandError, print, withTerminalErrors } from "./terminal/Process.ts"

/** The folder `templates` is next to `src/` in a clone, and next to `dist/` in the package. */
export const template = (name: string): string =>
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
 * The name under which a plugin is imported: `tagHiresPlugin`. It ends in `Plugin`, so it is not a reserved word, such as `delete`, and
 * not the name of another import.
 */
export const importNameOf = (name: string): string => {
  const camelCase = name.replaceAll(/-+(.?)/g, (_, letter: string) => letter.toUpperCase())
  return /[a-z\d]Plugin$/.test(camelCase) ? camelCase : `${camelCase}Plugin`
}

/** The lockfile shows which package manager the project uses. */
const packageManagerOf = (): "npm" | "pnpm" | "yarn" =>
  existsSync("pnpm-lock.yaml") ? "pnpm" : existsSync("yarn.lock") ? "yarn" : "npm"

/** The files of a new plugin: their texts by their paths. */
export const filesOfPlugin = (name: string, effect: boolean, inClone: boolean): Readonly<Record<string, string>> => {
  const adapted = (from: string) => {
    const text = template(`plugin/${from}`)
    const own = inClone
      ? text.replaceAll(/"rollcall\/(plugin|testing)"/g, '"#$1"').replaceAll("node_modules/rollcall/docs", "docs")
      : text
    return own.replaceAll("my-plugin", name).replaceAll("myPlugin", importNameOf(name))
  }
  return {
    [`plugins/${name}/plugin.ts`]: adapted(effect ? "plugin.effect.ts" : "plugin.ts"),
    [`plugins/${name}/plugin.test.ts`]: adapted("plugin.test.ts"),
    [`plugins/${name}/README.md`]: adapted("README.md")
  }
}

/** Creates files, none of which may exist. Only this user can read `.env`, which has a token. */
export const createFiles = (folder: string, files: Readonly<Record<string, string>>): void => {
  for (const [path, text] of Object.entries(files)) {
    const file = join(folder, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text, { flag: "wx", mode: path === ".env" ? 0o600 : 0o666 })
  }
}

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
  const files = filesOfPlugin(name, effect, inClone)
  createFiles(".", files)
  if (addsEffect) addEffect(project)
  const steps = [
    ...(project.type === "module" ? [] : ["npm pkg set type=module"]),
    ...(addsEffect ? [`${packageManagerOf()} install`] : []),
    `node --test ${folder}/plugin.test.ts`
  ]
  const text = [
    `created ${Object.keys(files).join(", ")}`,
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

/** Runs a command that creates files, and prints which. */
export const creating = (
  create: () => { readonly text: string; readonly files: ReadonlyArray<string> },
  json: boolean
) =>
  Effect.try({
    try: create,
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
  )

export const newPlugin = Command.make("new", {
  name,
  effect: switchFlag("effect", "Write the handler as an Effect instead of an async function"),
  json
}, ({ effect, json, name }) => creating(() => createPlugin(name, effect), json)).pipe(
  Command.withDescription("Create plugins/<name> with a plugin, its test and a README"),
  Command.withExamples([{
    command: "npx --no rollcall plugins new tag-hires && node --test plugins/tag-hires/plugin.test.ts",
    description: "Create a plugin and run its test"
  }])
)
