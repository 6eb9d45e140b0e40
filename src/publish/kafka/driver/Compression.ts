/**
 * The codecs of record batches, for every driver and for reading with kafkajs. No native package is needed: Node.js has gzip and
 * zstd, and @platformatic/kafka has snappy and lz4 as WebAssembly.
 */
import kafkajs from "kafkajs"
import { promisify } from "node:util"
import { gzip, zstdCompress, zstdDecompress } from "node:zlib"

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
const snappy = fromWebAssembly("snappy")
const lz4 = fromWebAssembly("lz4")
const zstd = { compress: promisify(zstdCompress) as Compress, decompress: promisify(zstdDecompress) as Compress }

/** For kafkajs, which has its own gzip. */
const register = (
  type: kafkajs.CompressionTypes,
  { compress, decompress }: Record<"compress" | "decompress", Compress>
) => {
  ;(kafkajs.CompressionCodecs as Record<number, unknown>)[type] = () => ({
    compress: ({ buffer }: { readonly buffer: Buffer }) => compress(buffer),
    decompress
  })
}
register(CompressionTypes.Snappy, snappy)
register(CompressionTypes.LZ4, lz4)
register(CompressionTypes.ZSTD, zstd)

/** Each codec's number in the attributes of a record batch, which kafkajs uses too. */
export const codecNumbers: Readonly<Record<Codec, number>> = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 }

export const compressors: Readonly<Record<Exclude<Codec, "none">, Compress>> = {
  gzip: promisify(gzip) as Compress,
  snappy: snappy.compress,
  lz4: lz4.compress,
  zstd: zstd.compress
}
