/** The variable with the folder in which processes that tests start keep their compiled code; none outside of the test runner. */
export const compileCache = (): Readonly<Record<string, string>> => {
  const folder = process.env["NODE_COMPILE_CACHE"]
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: folder }
}
