/**
 * Assessment and background-check packages, which are always read and replaced as one full list.
 *
 * Source: docs/contract.md, "HRIS", "Other reads" and "Writes".
 */
import * as Schema from "effect/Schema"
import { oneOf, openEnum, text, timestamp } from "./Fields.ts"

const types = ["SKILLS_TEST", "VIDEO_INTERVIEW", "BEHAVIORAL", "BACKGROUND_CHECK", "REFERENCE_CHECK"] as const

export const AssessmentPackage = Schema.Struct({
  id: Schema.String,
  name: text,
  description: text,
  updated_at: timestamp,
  type: oneOf(...types)
}).annotate({ identifier: "AssessmentPackage" })

export const AssessmentPackageList = Schema.Struct({ packages: Schema.Array(AssessmentPackage) })

/** The full list: packages that are not in it are removed. */
export const ReplacePackages = Schema.Struct({
  packages: Schema.Array(Schema.Struct({
    id: Schema.String,
    type: openEnum(...types),
    name: Schema.String,
    description: Schema.String
  }))
}).annotate({ identifier: "ReplacePackages" })
