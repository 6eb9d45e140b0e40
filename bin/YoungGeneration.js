// Bounds the memory for new objects. V8 lets it grow to three times 32 MB in each thread while pages are read. With 8 MB the peak of a
// process that reads pages is about 80 MB lower, for hardly more processor time. The bound is an option of Node's command line, so the process
// replaces itself by one with the option and keeps its id.
import process from "node:process"

const option = "--max-semi-space-size"
const megabytes = 8

const isSet = () =>
  [...process.execArgv, process.env.NODE_OPTIONS ?? ""].some((text) => text.replaceAll("_", "-").includes(option))

/**
 * Does not return, unless the option is already set or the process cannot be replaced. Node closes all open files except standard input,
 * output and error, so a process that a parent reaches over a channel (`child_process.fork`) is not replaced.
 */
export const bound = () => {
  if (isSet() || process.platform === "win32" || process.channel !== undefined) return
  const args = [process.execPath, `${option}=${megabytes}`, ...process.execArgv, ...process.argv.slice(1)]
  try {
    process.execve(process.execPath, args, process.env)
  } catch {
    // Node's permission model does not allow it: the process needs more memory
  }
}
