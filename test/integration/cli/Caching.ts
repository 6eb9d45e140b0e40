/** Keeps compiled code like the program, but loads only one small module: a start without a cache costs a twentieth. */
const load = (name: string) => import(new URL(`../../../bin/${name}`, import.meta.url).href)

const { enable } = await load("CompileCache.js")
enable()
await load("PeerVersion.js")
