/** How the contenders read the list, and how they report what it cost. */

export interface Application {
  readonly id: string
  readonly changed_at: string
  readonly remote_deleted_at: string | null
}

interface Body {
  readonly data: { readonly results: ReadonlyArray<Application>; readonly next: string | null }
}

/** The rows of each page, read with `fetch` and parsed. */
export async function* pages(url: string): AsyncGenerator<ReadonlyArray<Application>> {
  let cursor: string | null = null
  do {
    const query = new URLSearchParams({ page_size: "250", include_deleted: "true" })
    if (cursor !== null) query.set("cursor", cursor)
    const response: Response = await fetch(`${url}/ats/applications?${query}`, {
      headers: { authorization: "Bearer bench", "x-integration-id": "greenhouse:bench" }
    })
    if (!response.ok) throw new Error(`the origin responded with ${response.status}`)
    const { data }: Body = JSON.parse(await response.text())
    yield data.results
    cursor = data.next
  } while (cursor !== null)
}

/** Prints the processor time and the peak memory of this whole process, its start included. */
export const printCost = (): void => {
  const { maxRSS, systemCPUTime, userCPUTime } = process.resourceUsage()
  console.log(JSON.stringify({ cpuSeconds: (userCPUTime + systemCPUTime) / 1e6, peakMegabytes: maxRSS / 1000 }))
}
