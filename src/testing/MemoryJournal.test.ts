import { describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { attemptJournalSuite } from "../../test/conformance/AttemptJournal.ts"
import * as MemoryJournal from "./MemoryJournal.ts"

describe("steps in the journal of the test kit", () => {
  attemptJournalSuite(
    Effect.sync(() => {
      const state: MemoryJournal.JournalState = {
        rows: [],
        newest: { delivery: 1, claim: 1 },
        counted: new Map()
      }
      const step = { handler: 0, dedupKeys: ["e1"], step: "s", keepForever: false } as const
      const fence = { owner: { scope: "test", epoch: 1 }, ...state.newest }
      return {
        journal: MemoryJournal.make(state, {
          content: () => Effect.succeed(null),
          applicationsOf: () => Effect.succeed([])
        }),
        fence,
        step,
        intent: { ...step, integration: "greenhouse:acme", write: null, allowRepeat: false },
        following: Effect.sync(() => {
          state.newest = { delivery: 1, claim: 2 }
          return { ...fence, claim: 2 }
        })
      }
    }),
    Layer.empty
  )
})
