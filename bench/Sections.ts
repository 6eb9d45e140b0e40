/** All sections, in the order of the page. */
import type { Section } from "./Section.ts"
import { commits } from "./sections/Commits.ts"
import { deliveries } from "./sections/Deliveries.ts"
import { million } from "./sections/Million.ts"
import { postgres } from "./sections/Postgres.ts"
import { first, unchanged } from "./sections/Reading.ts"
import { relay } from "./sections/Relay.ts"
import { streams, streamsOnPostgres } from "./sections/Streams.ts"
import { takeover } from "./sections/Takeover.ts"

export const sections: ReadonlyArray<Section> = [
  first,
  unchanged,
  postgres,
  relay,
  million,
  streams,
  streamsOnPostgres,
  takeover,
  deliveries,
  commits
]
