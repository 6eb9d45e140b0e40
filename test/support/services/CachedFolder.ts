/** Folders of this project with programs for tests, each filled once. If two test files fill one at the same time, the first wins. */
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises"
import { join } from "node:path"

/** The path of the folder `.cache/<name>`; `fill` writes its content to the folder that it gets. */
export const cachedFolder = async (name: string, fill: (folder: string) => Promise<unknown>): Promise<string> => {
  const home = join(import.meta.dirname, "../../../.cache", name)
  if (existsSync(home)) return home
  await mkdir(join(home, ".."), { recursive: true })
  const folder = await mkdtemp(`${home}-`)
  try {
    await fill(folder)
    await rename(folder, home).catch((cause) => {
      if (!existsSync(home)) throw cause
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return home
}
