/** Longer than every name; the rest of a longer text does not count, because its distance would take long to compute. */
const maxLength = 100

/** For "did you mean": the candidate with the smallest edit distance. `candidates` must not be empty. */
export const closestName = (text: string, candidates: ReadonlyArray<string>): string => {
  const name = text.slice(0, maxLength)
  const edits = (a: string, b: string): number => {
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
  return candidates.reduce((best, candidate) => edits(name, candidate) < edits(name, best) ? candidate : best)
}
