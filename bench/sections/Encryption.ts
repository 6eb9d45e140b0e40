/** The cost of encrypting stored content: a first read with a key, compared with one without. */
import { randomBytes } from "node:crypto"
import { readWithoutKafka } from "../contenders/Contenders.ts"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import { type Options, repeat, type Run, type Section } from "../Section.ts"
import { Folder } from "../Service.ts"
import { column, cpuColumn, cpuRatioColumn, named, rateColumn, rateRatioColumn, rowsTable } from "../Table.ts"

const measure = async ({ records = 20_000, runs = 3 }: Options) => {
  await using origin = await RunningOrigin.start(records)
  const read = async (settings: Readonly<Record<string, string>>): Promise<Run> => {
    await using folder = await Folder.make()
    const cost = await readWithoutKafka(origin, folder, settings)
    return { ...cost, bytesPerRecord: (await folder.storeBytes()) / records }
  }
  const measured = await repeat(runs, async () => ({
    ...named("plain", await read({})),
    ...named("encrypted", await read({ ROLLCALL_ENCRYPTION_KEY: randomBytes(32).toString("base64") }))
  }))
  return { encryption: { runs: measured } }
}

export const encryption: Section = {
  name: "encryption",
  title: "Encryption",
  measure,
  table: (runs) =>
    rowsTable(runs, "", { plain: "without a key", encrypted: "with a key" }, [
      rateColumn("records"),
      rateRatioColumn("plain", "without"),
      cpuColumn,
      cpuRatioColumn("plain", "without"),
      column("bytes on disk per record", "bytesPerRecord")
    ]),
  explanation: `
The same first read with and without \`encryptionKey\`, in turn. Encrypted content is stored as base64.`
}
