/**
 * The applications that the origin serves, each as the bytes of its JSON. Their content is a function of the seed, the index of the
 * application and the changes that were made to it, so that every contender reads the same bytes.
 *
 * Details
 * - `full` applications have 1.8 to 3.1 KB, as real ones with a candidate, interviews and answers; `compact` ones have about 600 B.
 * - 51 neighboring applications share a job and repeat its name.
 */
import { SeededRandom } from "../../src/sandbox/world/SeededRandom.ts"

export type Form = "full" | "compact"

const jobSize = 51
const day = 86_400_000
/** Applications that were not changed have a `changed_at` within half a year from here. */
export const oldestChange = Date.UTC(2025, 0, 1)
const period = 180 * day

const firstNames = ["Ada", "Grace", "Søren", "Zoë", "Björn", "Mei", "Fatima", "Diego", "Kofi", "Łukasz", "Noah", "Elif"]
const lastNames = [
  "Müller",
  "Nguyễn",
  "García",
  "Okafor",
  "Tanaka",
  "O'Neill",
  "Haddad",
  "Lindqvist",
  "Rossi",
  "Dubois"
]
const cities = [["Berlin", "DE"], ["Wien", "AT"], ["Zürich", "CH"], ["Lyon", "FR"], ["Austin", "US"], ["Porto", "PT"]]
const stages = ["New", "Screening", "Interview", "Assessment", "References", "Offer", "Hired"]
const titles = ["Backend Engineer", "Account Executive", "Data Analyst", "Product Designer", "Nurse", "Controller"]
const companies = ["Northwind GmbH", "Contoso AG", "Fabrikam", "Tailspin Industries", "Litware Enterprises"]
const questions = [
  "Are you allowed to work in the country of this position?",
  "How long is your notice period?",
  "Where did you read about this position?",
  "Which project are you proud of, and what was your part in it?"
]
const answers = [
  "Yes",
  "No",
  "Three months, to the end of a quarter",
  "I rebuilt the billing of a marketplace, so that a price change takes minutes instead of a release of two weeks."
]

const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
const below = (random: SeededRandom, limit: number): number => Math.floor(random.next() * limit)
/** 24 letters and digits, such as the ids of the API. */
const idOf = (random: SeededRandom): string => {
  let id = ""
  for (let length = 0; length < 24; length++) id += alphabet[below(random, alphabet.length)]
  return id
}
const iso = (time: number): string => new Date(time).toISOString()
/** Properties of every object of the API. */
const metadata = (created: number, changed: number) => ({
  custom_fields: null,
  integration_fields: [],
  remote_url: null,
  remote_data: null,
  remote_created_at: iso(created),
  remote_updated_at: iso(changed),
  changed_at: iso(changed),
  remote_deleted_at: null
})

const addressOf = (random: SeededRandom, place: string) => {
  const [city, country] = random.pick(cities) as [string, string]
  return {
    city,
    country,
    raw: `${place}, ${city}`,
    state: null,
    street_1: `${place} ${below(random, 300)}`,
    street_2: null,
    zip_code: String(10_000 + below(random, 89_999))
  }
}

export class Applications {
  readonly count: number
  readonly bodies: Array<Buffer> = []
  readonly changedAt: Float64Array
  readonly #form: Form
  readonly #updates: Uint16Array

  constructor(count: number, form: Form) {
    this.count = count
    this.#form = form
    this.changedAt = new Float64Array(count)
    this.#updates = new Uint16Array(count)
    for (let index = 0; index < count; index++) this.#render(index)
  }

  /** Changes so many applications, or all if there are fewer; returns how many. */
  change(count: number, now: number): number {
    const random = new SeededRandom(1)
    const touched = new Set<number>()
    while (touched.size < Math.min(count, this.count)) touched.add(below(random, this.count))
    for (const index of touched) {
      this.changedAt[index] = now
      this.#updates[index]!++
      this.#render(index)
    }
    return touched.size
  }

  #render(index: number): void {
    const random = new SeededRandom(2_654_435_761 + index * 40_503)
    const id = idOf(random)
    const created = oldestChange - below(random, 400 * day)
    // drawn each time, so that the draws after it stay the same
    const firstChange = oldestChange + below(random, period)
    const changed = this.changedAt[index] || firstChange
    this.changedAt[index] = changed
    const stage = (below(random, 5) + this.#updates[index]!) % stages.length
    const declined = random.next() < 0.2
    const job = Math.floor(index / jobSize)
    const record = {
      id,
      remote_id: String(4_000_000 + index),
      outcome: stage === stages.length - 1 ? "HIRED" : declined ? "DECLINED" : "PENDING",
      rejection_reason_name: null,
      rejected_at: null,
      job_id: idOf(new SeededRandom(77_000_000 + job)),
      candidate_id: idOf(random),
      current_stage_id: idOf(new SeededRandom(99_000_000 + stage)),
      ...metadata(created, changed),
      remote_url: `https://app.example/${4_000_000 + index}`,
      job: {
        id: idOf(new SeededRandom(77_000_000 + job)),
        remote_id: String(job),
        name: `${titles[job % titles.length]} ${job}`
      }
    }
    const all = this.#form === "compact"
      ? record
      : { ...record, ...this.#details(index, random, record, created, stage) }
    this.bodies[index] = Buffer.from(JSON.stringify(all))
  }

  #details(
    index: number,
    random: SeededRandom,
    record: { readonly candidate_id: string; readonly current_stage_id: string },
    created: number,
    stage: number
  ) {
    const [first, last] = [random.pick(firstNames), random.pick(lastNames)]
    const handle = `${first}.${last}.${index}`.toLowerCase().replace(/[^a-z0-9.]/g, "x")
    const changed = oldestChange + below(random, period)
    const interviews = Array.from({ length: random.next() < 0.5 ? 0 : 1 + below(random, 2) }, (_, round) => ({
      id: idOf(random),
      remote_id: String(below(random, 1e9)),
      title: `${random.pick(["Phone", "Panel", "Technical"])} interview ${round + 1}`,
      starting_at: iso(created + (3 + 4 * round) * day),
      ending_at: iso(created + (3 + 4 * round) * day + 3_600_000),
      location: addressOf(random, `Room ${below(random, 40)}`),
      canceled: random.next() < 0.05
    }))
    return {
      remote_url: `https://app.greenhouse.example/people/${4_000_000 + index}?application_id=${index}`,
      custom_fields: {
        cost_center: `CC-${below(random, 900)}`,
        referral: random.next() < 0.3,
        score: below(random, 1_000) / 10,
        nested: { team: random.pick(["Blue", "Green", "Red"]), level: below(random, 9) }
      },
      screening_question_answers: Array.from({ length: 1 + below(random, 3) }, () => ({
        answer: random.next() < 0.5 ? { choice: random.pick(answers) } : { content: random.pick(answers) },
        question: { remote_id: String(below(random, 1e7)), title: random.pick(questions), type: "SINGLE_SELECT" }
      })),
      candidate: {
        id: record.candidate_id,
        remote_id: String(7_000_000 + index),
        first_name: first,
        last_name: last,
        company: random.pick(companies),
        title: random.pick(titles),
        confidential: random.next() < 0.02,
        source: random.pick(["LinkedIn", "Referral", "Career page", "Agency"]),
        phone_numbers: [{ phone_number: `+49 30 ${1_000_000 + below(random, 8_999_999)}`, type: "HOME" }],
        email_addresses: [{ email_address: `${handle}@example.org`, type: "PRIVATE" }],
        social_media: [{ link: `https://social.example/${handle}`, type: "YOUTUBE", username: null }],
        location: addressOf(random, "Ring"),
        tags: random.next() < 0.4 ? [tagOf(index % 40)] : [],
        ...metadata(created, changed)
      },
      current_stage: {
        id: record.current_stage_id,
        remote_id: String(900 + stage),
        name: stages[stage],
        status: "ACTIVE",
        custom_fields: null,
        integration_fields: [],
        index: stage
      },
      interviews,
      offers: random.next() < 0.2
        ? [{
          id: idOf(random),
          remote_id: String(below(random, 1e9)),
          status: random.pick(["ACCEPTED", "SENT", "DRAFT"])
        }]
        : []
    }
  }
}

const tagOf = (number: number) => ({
  id: idOf(new SeededRandom(55_000_000 + number)),
  remote_id: String(number),
  name: `tag-${number}`
})
