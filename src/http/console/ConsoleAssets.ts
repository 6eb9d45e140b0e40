/**
 * The files of the console, in memory. The package contains them built; in a clone they are built from the sources when a browser first
 * requests one of them, so that nothing has to be built by hand and no file is out of date.
 */
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import { assetNames } from "../request/ConsolePaths.ts"
type AssetName = (typeof assetNames)[number]

const types: Readonly<Record<AssetName, string>> = {
  "console.js": "text/javascript; charset=utf-8",
  "console.css": "text/css; charset=utf-8",
  "icon.svg": "image/svg+xml",
  "licenses.txt": "text/plain; charset=utf-8"
}

export interface Asset {
  readonly type: string
  readonly plain: Uint8Array
  readonly zipped: Uint8Array
}

/** `console/Build.ts` of a clone; the package and the container image do not have it. */
const builder = new URL("../../../console/Build.ts", import.meta.url)
/** From `src/http/console` and from `dist/http/console` alike. */
const built = new URL("../../../dist/console/", import.meta.url)

const read = async (): Promise<ReadonlyMap<string, Uint8Array>> => {
  if (import.meta.url.endsWith(".ts") && existsSync(builder)) {
    const { build } = await import(builder.href)
    return build()
  }
  return new Map(
    await Promise.all(
      assetNames.map(async (name) => [name, new Uint8Array(await readFile(new URL(name, built)))] as const)
    )
  )
}

const zip = promisify(gzip)

const load = async (): Promise<ReadonlyMap<AssetName, Asset>> => {
  const files = await read()
  return new Map(
    await Promise.all(assetNames.map(async (name) => {
      const plain = files.get(name) ?? new Uint8Array()
      return [name, { type: types[name], plain, zipped: new Uint8Array(await zip(plain, { level: 9 })) }] as const
    }))
  )
}

let loading: ReturnType<typeof load> | null = null

/** Loads the files once per process. After a failure, the next request tries again. */
export const loadAssets: Effect.Effect<ReadonlyMap<AssetName, Asset>> = Effect.promise(() => {
  loading ??= load().catch((error: unknown) => {
    loading = null
    throw error
  })
  return loading
})
