/** A delivery that ends the process in another way than in `Containment.test.ts`. */
import { describe, it } from "vitest"
import { checkCrashes } from "./Poison.ts"

describe("a delivery that ends the process", () => {
  it("by process.abort runs alone after three crashes and then becomes a dead letter; all others are delivered (L21)", () =>
    checkCrashes(`process.abort()`))
})
