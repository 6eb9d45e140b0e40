/** The record schema of each model: of the lists, of the nested candidate, and of the package. */
import { AssessmentPackage } from "./Assessment.ts"
import { Candidate, recordSchemas } from "./Records.ts"

export const modelSchemas = {
  ...recordSchemas,
  "ats.candidate": Candidate,
  "assessment.package": AssessmentPackage
} as const
