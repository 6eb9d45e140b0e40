/** Runs a program that prints its values as one line of JSON. */
import { Process } from "../Process.ts"
import type { Run } from "../Section.ts"

/** `script`: its name in this folder. */
export const runProgram = async (script: string, ...args: ReadonlyArray<string | number>): Promise<Run> => {
  await using program = new Process(`bench/programs/${script}.ts`, args.map(String), "stdout")
  return JSON.parse((await program.line("{")).text)
}
