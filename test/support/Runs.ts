/** How often a property with expensive runs is checked; `count` times, and ten times as often in `npm run test:long`. */
export const runs = (count: number): number => count * Number(process.env["PROPERTY_RUNS"] ?? 1)
