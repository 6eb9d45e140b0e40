const octet = String.raw`(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
const loopback = new RegExp(String.raw`^(?:localhost|::1|\[::1\]|127(?:\.${octet}){3})$`, "i")

/** Whether only this machine can reach a host, given as a name or an address. */
export const isLoopback = (host: string): boolean => loopback.test(host)
