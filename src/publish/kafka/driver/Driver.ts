/**
 * The port to the library that sends messages to Kafka. Everything else (topics, reading) uses kafkajs, whichever driver sends.
 *
 * Invariants
 * 1. Messages of one partition are appended in their order
 * 2. The first `begin` of a producer fences every earlier producer with its transactional id
 * 3. After `close`, no call sends anything, even a call that has not returned yet
 */
import type { ConnectionOptions } from "node:tls"
import type { Codec } from "./Compression.ts"

export const drivers = ["kafkajs", "platformatic"] as const
export type DriverName = typeof drivers[number]

export interface PlacedMessage {
  readonly topic: string
  readonly partition: number
  readonly key: string
  /** null deletes the key in a compacted topic. */
  readonly value: Buffer | null
  readonly headers: Readonly<Record<string, string>>
}

/** The offset in a partition at which a sent batch starts. */
export interface AppendedBatch {
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

export interface Transaction {
  /** Sends one record batch to each of the messages' partitions. An offset is missing if the broker does not know it. */
  readonly send: (messages: ReadonlyArray<PlacedMessage>) => Promise<ReadonlyArray<AppendedBatch>>
  readonly commit: () => Promise<void>
  readonly abort: () => Promise<void>
}

/** A producer that failed once is closed, and not used again. */
export interface Producer {
  readonly connect: () => Promise<void>
  /** Starts a transaction. Without a transactional id, each send is visible at once. */
  readonly begin: () => Promise<Transaction>
  readonly close: () => Promise<void>
}

export interface ProducerOptions {
  /** Null without transactions. */
  readonly transactionalId: string | null
  /** After this time (ms) the broker aborts an open transaction. */
  readonly transactionTimeout: number
  readonly codec: Codec
}

/** A login in the terms of both drivers. `exchange` sends the token to the broker, and fails if the broker refuses it. */
export type Login =
  | {
    readonly mechanism: "plain" | "scram-sha-256" | "scram-sha-512"
    readonly username: string
    readonly password: string
  }
  | { readonly mechanism: "oauthbearer"; readonly logIn: (exchange: Exchange) => Promise<void> }
/** Sends the client's message of RFC 7628 to the broker, and returns the response. */
export type Exchange = (message: Buffer) => Promise<Buffer>

/** How a driver reaches the brokers. */
export interface Endpoint {
  /** `host:port` */
  readonly brokers: ReadonlyArray<string>
  readonly tls: ConnectionOptions | false
  readonly login: Login | null
}

export const clientId = "rollcall"
/** Milliseconds. */
export const timeouts = { connect: 3000, request: 10_000 }
