/**
 * Free ports of this machine for programs that tests start.
 *
 * Gotchas
 * - A program listens seconds after its port was chosen. The system gives outgoing connections ports from 32,768 on, and tests open
 *   thousands of connections, so such a port may be in use by then.
 */
import { once } from "node:events"
import { createServer } from "node:net"

const isFree = async (port: number): Promise<boolean> => {
  const server = createServer()
  try {
    await once(server.listen(port, "127.0.0.1"), "listening")
  } catch {
    return false
  }
  server.close()
  await once(server, "close")
  return true
}

/** A random port between 15,000 and 32,000 that is free now. */
export const freePort = async (): Promise<number> => {
  const port = 15_000 + Math.floor(Math.random() * 17_000)
  return await isFree(port) ? port : freePort()
}
