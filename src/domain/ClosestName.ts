/** Longer than every name. The rest of a longer text is ignored, because the computation would take too long. */
const maxLength = 100

/** The edit distance: how many characters must be inserted, removed or replaced to turn `one` into `other`. */
export const distanceOf = (one: string, other: string): number => {
  const [a, b] = [one.slice(0, maxLength), other.slice(0, maxLength)]
  let row = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    }
    row = next
  }
  return row[b.length]!
}

/** A name with more changes is another name, not a misspelled one. */
const mostChanges = 2

/** The candidate that was probably meant; null if none is similar. */
export const similarName = (name: string, candidates: ReadonlyArray<string>): string | null => {
  const near = candidates.filter((one) => one !== name && Math.abs(one.length - name.length) <= mostChanges)
  const best = near.length === 0 ? null : closestName(name, near)
  return best !== null && distanceOf(name, best) <= mostChanges ? best : null
}

/** For "did you mean": the candidate with the smallest edit distance. `candidates` must not be empty. */
export const closestName = (name: string, candidates: ReadonlyArray<string>): string =>
  candidates.reduce((best, candidate) => distanceOf(name, candidate) < distanceOf(name, best) ? candidate : best)
