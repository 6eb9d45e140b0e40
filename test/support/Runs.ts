const factor = Number(process.env["PROPERTY_RUNS"] ?? 1)

/** Number of runs of a property with expensive runs: `count`, and ten times as many in `npm run test:long`. */
export const runs = (count: number): number => count * factor

/** The seeds of a test with expensive runs: the first `count`, and all in `npm run test:long`. */
export const seeds = (count: number, all: ReadonlyArray<number>): ReadonlyArray<number> =>
  factor > 1 ? all : all.slice(0, count)
