/** The steps and writes of a delivery, in the order in which they began. */
import type { DeadLetterDetailView } from "../../src/http/contract/DeadLetterViews.ts"
import { At, Badge } from "./Basics.tsx"

export const Steps = ({ steps }: { readonly steps: DeadLetterDetailView["journal"] }) => (
  <ul>
    {steps.map(({ begun_at, done, step, write }) => (
      <li key={step}>
        {write === null ? "Step" : "Write"} <code>{write ?? step}</code>{" "}
        <Badge tone={done ? "good" : "warn"}>{done ? "done" : "outcome unknown"}</Badge> <At at={begun_at} />
      </li>
    ))}
  </ul>
)
