/**
 * The codecs of record batches. kafkajs has only gzip; the others are registered with it here, for sending and for reading. No native
 * package is needed: Node.js has zstd, and @platformatic/kafka has snappy and lz4 as WebAssembly.
 */
import kafkajs from "kafkajs"
import { promisify } from "node:util"
import { zstdCompress, zstdDecompress } from "node:zlib"

const { CompressionTypes } = kafkajs

export const codecs = ["none", "gzip", "snappy", "lz4", "zstd"] as const
export type Codec = typeof codecs[number]

type Compress = (bytes: Buffer) => Promise<Buffer>

/** The library is loaded when the codec is used. */
const fromWebAssembly = (codec: "snappy" | "lz4") => ({
  compress: async (bytes: Buffer) => {
    const { compressionsAlgorithms } = await import("@platformatic/kafka")
    return compressionsAlgorithms[codec].compressSync(bytes)
  },
  decompress: async (bytes: Buffer) => {
    const { compressionsAlgorithms } = await import("@platformatic/kafka")
    return compressionsAlgorithms[codec].decompressSync(bytes)
  }
})
const register = (
  type: kafkajs.CompressionTypes,
  { compress, decompress }: Record<"compress" | "decompress", Compress>
) => {
  ;(kafkajs.CompressionCodecs as Record<number, unknown>)[type] = () => ({
    compress: ({ buffer }: { readonly buffer: Buffer }) => compress(buffer),
    decompress
  })
}
register(CompressionTypes.Snappy, fromWebAssembly("snappy"))
register(CompressionTypes.LZ4, fromWebAssembly("lz4"))
register(CompressionTypes.ZSTD, {
  compress: promisify(zstdCompress) as Compress,
  decompress: promisify(zstdDecompress) as Compress
})

/** Each codec as kafkajs calls it. */
export const codecTypes: Readonly<Record<Codec, kafkajs.CompressionTypes>> = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD
}
