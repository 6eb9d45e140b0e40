import { assert, describe, it } from "@effect/vitest"
import { canonicalHash, type JsonObject } from "./Canonical.ts"
import { diff } from "./Diff.ts"
import { defaultProcessing, make, type ProcessingOptions } from "./Processing.ts"

const application: JsonObject = {
  id: "A1",
  remote_data: { raw: 1 },
  candidate: {
    id: "C1",
    first_name: "Ada",
    remote_data: { raw: 2 },
    email_addresses: [{ email_address: "ada@example.com", type: "PRIVATE" }],
    phone_numbers: null
  },
  custom_fields: { "a/b": "secret" }
}
const processing = (options: Partial<ProcessingOptions>) =>
  make("ats.application", { remoteData: "drop", redact: {}, key: "k", ...options })

describe("Processing", () => {
  it("dropped remote_data is null on the record and on embedded records", () => {
    const dropped = defaultProcessing("ats.application").apply(application)
    assert.isNull(dropped["remote_data"])
    assert.isNull((dropped["candidate"] as JsonObject)["remote_data"])
    assert.deepStrictEqual(dropped["custom_fields"], application["custom_fields"])
  })

  it("carried remote_data is published but is not a change alone, tracked remote_data is", () => {
    const other = { ...application, remote_data: { raw: 3 } }
    const carry = processing({ remoteData: "carry" })
    assert.deepStrictEqual(carry.apply(application)["remote_data"], { raw: 1 })
    assert.strictEqual(canonicalHash(carry.shape, application), canonicalHash(carry.shape, other))
    assert.deepStrictEqual(diff(carry.shape, application, other), [])
    const track = processing({ remoteData: "track" })
    assert.deepStrictEqual(diff(track.shape, application, other).map((change) => change.path), ["/remote_data/raw"])
  })

  it("redaction drops a path or replaces its value by a keyed hash, even inside arrays, and keeps null", () => {
    const { applied, apply, reapply } = processing({
      redact: {
        "/candidate/first_name": "drop",
        "/candidate/email_addresses/email_address": "hash",
        "/candidate/phone_numbers": "hash",
        "/custom_fields/a~1b": "hash",
        "/not/there": "drop"
      }
    })
    const redacted = apply(application)
    const candidate = redacted["candidate"] as JsonObject
    assert.notProperty(candidate, "first_name")
    assert.isNull(candidate["phone_numbers"])
    assert.notInclude(JSON.stringify(redacted), "ada@example.com")
    assert.notInclude(JSON.stringify(redacted), "secret")
    assert.match(String((candidate["email_addresses"] as ReadonlyArray<JsonObject>)[0]!["email_address"]), /^redacted:/)
    assert.deepStrictEqual(reapply(redacted, applied), redacted, "processing stored content again changes nothing")
  })

  it("every rule that affects the hashes changes the fingerprint (V1)", () => {
    const fingerprints = [
      defaultProcessing("ats.application"),
      processing({ remoteData: "carry" }),
      processing({ remoteData: "track" }),
      processing({ redact: { "/candidate": "drop" } }),
      processing({ redact: { "/candidate": "hash" } }),
      defaultProcessing("ats.offer")
    ].map(({ fingerprint }) => fingerprint)
    assert.strictEqual(new Set(fingerprints).size, fingerprints.length)
    assert.strictEqual(processing({}).fingerprint, defaultProcessing("ats.application").fingerprint)
  })
})
