/** A request for each of the twelve writes, with every field. */
import * as Schema from "effect/Schema"
import { EmployeeForm } from "../../../src/api/Forms.ts"
import type { WriteName } from "../../../src/api/Writes.ts"
import type { WriteRequest } from "../../../src/source/Source.ts"
import { form, writeExamples } from "../api/Examples.ts"

export const to = { account: "eu", integration: "greenhouse:acme" }

export const requests: { readonly [W in WriteName]: WriteRequest<W> } = {
  createApplication: { ...to, write: "createApplication", ...writeExamples.createApplication },
  addResultLink: { ...to, write: "addResultLink", ...writeExamples.addResultLink },
  addTag: { ...to, write: "addTag", ...writeExamples.addTag },
  removeTag: { ...to, write: "removeTag", ...writeExamples.removeTag },
  updateInterview: { ...to, write: "updateInterview", ...writeExamples.updateInterview },
  addCandidateAttachment: { ...to, write: "addCandidateAttachment", ...writeExamples.addCandidateAttachment },
  createEmployee: {
    ...to,
    write: "createEmployee",
    form: Schema.decodeUnknownSync(EmployeeForm)(form),
    ...writeExamples.createEmployee
  },
  uploadDocument: { ...to, write: "uploadDocument", ...writeExamples.uploadDocument },
  rateSkill: { ...to, write: "rateSkill", ...writeExamples.rateSkill },
  expectSkill: { ...to, write: "expectSkill", ...writeExamples.expectSkill },
  replacePackages: { ...to, write: "replacePackages", ...writeExamples.replacePackages },
  deactivateCourse: { ...to, write: "deactivateCourse", ...writeExamples.deactivateCourse }
}
