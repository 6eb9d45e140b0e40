/** The words from which the simulated organizations are made, and the values that consist of several words. */
import { dateOf, type Fields, type Row } from "./Records.ts"
import type { SeededRandom } from "./SeededRandom.ts"

/** The label of a name: "Full time" for "FULL_TIME". */
export const toLabel = (name: string): string =>
  name.slice(0, 1).toUpperCase() + name.slice(1).toLowerCase().replaceAll("_", " ")

const words = (text: string): ReadonlyArray<string> => text.trim().split(/,\s+/)

export const firstNames = words(`
  Ada, Alan, Amara, Anders, Aylin, Barbara, Bela, Chidi, Chloe, Dana, Diego, Edsger, Elif, Emma, Farah, Felix,
  Grace, Hana, Hedy, Ida, Igor, Ines, Jonas, Joan, Kai, Katherine, Lena, Leslie, Linus, Mads, Margaret, Mei,
  Mira, Nadia, Niklaus, Noor, Olga, Omar, Paula, Priya, Radia, Rosa, Sami, Sofia, Tariq, Tim, Uma, Vera, Wanda,
  Yuki, Zoe, Zuse
`)
export const lastNames = words(`
  Adeyemi, Almeida, Bauer, Berg, Borg, Castillo, Chen, Dietrich, Dijkstra, Dubois, Eriksen, Ferrari, Fischer,
  Garcia, Goldberg, Hamilton, Haugen, Hopper, Ivanova, Jansen, Johnson, Kaya, Keller, Kowalski, Lamarr, Lamport,
  Lindqvist, Liskov, Lovelace, Martin, Meyer, Moreau, Mueller, Nakamura, Novak, Okafor, Olsen, Patel, Perlman,
  Petrov, Rossi, Sato, Schmidt, Schneider, Silva, Singh, Svensson, Turing, Vargas, Weber, Wirth, Yilmaz
`)
export const companies = words(`
  Northwind Optics, Halden Logistics, Brightwater Bank, Fjord Robotics, Meridian Health, Copper & Vale,
  Lumen Energy, Orchard Foods, Tessera Labs, Quayside Insurance, Alpine Mobility, Papertrail Software
`)
export const titles = words(`
  Software Engineer, Data Analyst, Product Manager, Account Executive, People Partner, Nurse, Designer,
  Site Reliability Engineer, Controller, Warehouse Lead, Customer Success Manager, Electrician, Recruiter
`)
export const seniorities = words("Junior, Senior, Staff, Lead, Principal")
export const sources = words("LinkedIn, Referral, Career page, Indeed, Agency, University fair")
export const stageNames = words("Applied, Screening, Phone interview, Interview, Final round, Offer, Hired")
export const tagNames = words(`
  referral, relocation, remote, senior, silver medalist, urgent, rehire, graduate, visa, part-time, bilingual,
  leadership, on hold, do not contact, top talent, contractor
`)
export const rejections = words(
  "Withdrew, Not enough experience, Salary expectations, Position filled, Accepted another offer, No response"
)
export const interviewTitles = words("Phone screen, Technical interview, Panel interview, Culture talk, Case study")
export const skillNames = words(`
  Statistics, Negotiation, TypeScript, First aid, Bookkeeping, Forklift driving, Public speaking, SQL, Welding,
  Spanish, Coaching, Incident response, Copywriting, Project planning, Procurement, Typography
`)
export const groupNames = words(
  "Engineering, Finance, People, Sales, Support, Legal, Design, Operations, Data, Facilities"
)
export const reviewComments = words(`
  Delivers reliably and helps others to do the same.,
  A strong half-year with two difficult projects brought home.,
  Should delegate earlier; the quality of the own work is beyond doubt.,
  Grew into the role faster than anyone expected.,
  Solid work, more initiative in cross-team questions would help.
`)
export const ratings = words("Below expectations, Meets expectations, Exceeds expectations, Outstanding")
export const payItems = words("Base salary, Income tax, Pension contribution, Health insurance, Bonus, Overtime")
export const absences = words(
  "Vacation, Sick leave, Parental leave, Unpaid leave, Training, Special leave, Overtime compensation"
)
export const legalForms = words("GmbH, Ltd, Inc, SAS, AB, BV")
/** Name and type of each package. */
export const packages = [
  ["Logical reasoning", "SKILLS_TEST"],
  ["Video interview", "VIDEO_INTERVIEW"],
  ["Reference check", "REFERENCE_CHECK"]
] as const
export const places = [
  { city: "Berlin", country: "DE", state: "Berlin", street: "Torstrasse", zip: "10119" },
  { city: "Munich", country: "DE", state: "Bavaria", street: "Leopoldstrasse", zip: "80802" },
  { city: "Lyon", country: "FR", state: "Auvergne-Rhone-Alpes", street: "Rue Garibaldi", zip: "69003" },
  { city: "Leeds", country: "GB", state: "England", street: "Wellington Street", zip: "LS1 4DL" },
  { city: "Gothenburg", country: "SE", state: "Vastra Gotaland", street: "Avenyn", zip: "411 36" },
  { city: "Utrecht", country: "NL", state: "Utrecht", street: "Oudegracht", zip: "3511 AB" },
  { city: "Austin", country: "US", state: "Texas", street: "Congress Avenue", zip: "78701" },
  { city: "Porto", country: "PT", state: "Porto", street: "Rua das Flores", zip: "4050-262" }
] as const
export const employmentTypes = [
  { remote_label: "Vollzeit", unified_type: "FULL_TIME" },
  { remote_label: "Teilzeit", unified_type: "PART_TIME" },
  { remote_label: "Praktikum", unified_type: "INTERNSHIP" }
] as const
/** The words that a rename appends: names stay readable however often they change. */
export const revisions = words("North, South, East, West, Nordics, Iberia, Europe, International")

const day = 86_400_000

/** The responses of a scorecard, one of each type. */
export const scorecardResponses = (random: SeededRandom, at: number): Fields[string] => {
  const options = [{ label: "No", remote_id: "o1" }, { label: "Yes", remote_id: "o2" }, {
    label: "Strong yes",
    remote_id: "o3"
  }]
  const of = (label: string, type: string, answer: Fields[string]) => ({
    answer,
    description: null,
    label,
    remote_id: `r-${type.toLowerCase()}`,
    required: random.boolean(0.5),
    type
  })
  return [
    { ...of("Recommendation", "SINGLE_SELECT", random.pick(options)), options },
    { ...of("Strengths", "MULTI_SELECT", options.slice(1, random.int(2, 3))), options },
    of("Impression", "TEXT", random.pick(reviewComments)),
    of("Would work with", "BOOLEAN", random.boolean(0.7)),
    of("Score", "NUMBER", random.int(1, 10)),
    of("Available from", "DATE", random.boolean(0.8) ? dateOf(at + random.int(10, 90) * day) : null)
  ]
}

/** The summary rating of a performance review. */
export const rating = (random: SeededRandom): Fields[string] => ({
  type: "SINGLE_SELECT",
  ordered_options: [...ratings],
  value: random.pick(ratings)
})

/** A random expected proficiency on this skill's scale. */
export const proficiency = (skill: Row | null | undefined, random: SeededRandom): Fields[string] => {
  const scale = skill?.one["proficiency_scale"]?.fields
  if (scale === undefined || random.boolean(0.2)) return null
  if (scale["type"] === "NUMERIC") {
    return { type: "NUMERIC", value: random.int(Number(scale["min"]) + 1, Number(scale["max"])) }
  }
  const option = random.pick(scale["ordered_options"] as ReadonlyArray<{ readonly id: string }>)
  return { type: "SINGLE_SELECT", selected_option_id: option.id }
}

export const jobTitle = (random: SeededRandom): string => `${random.pick(seniorities)} ${random.pick(titles)}`

/** The content of a sample file, in Base64. */
export const fileContent = (title: string): string => Buffer.from(`A ${title} of the sandbox.\n`).toString("base64")
