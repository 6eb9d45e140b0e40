const factor = Number(process.env["PROPERTY_RUNS"] ?? 1)

/** How often a property with expensive runs is checked; `count` times, and ten times as often in `npm run test:long`. */
export const runs = (count: number): number => count * factor

/** Which seeds a test with expensive runs uses: the first `count`, and all in `npm run test:long`. */
export const seeds = (count: number, all: ReadonlyArray<number>): ReadonlyArray<number> =>
  factor > 1 ? all : all.slice(0, count)
