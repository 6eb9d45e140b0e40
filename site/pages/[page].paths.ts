import { linkedPages } from "../AddedPages.ts"

export default {
  paths: async () => {
    // the parts of the program are not bundled with the configuration of the site
    const [{ commandsPage }, { httpPage, messagesPage, schemasPage }] = await Promise.all([
      import(new URL("../reference/Commands.ts", import.meta.url).href),
      import(new URL("../reference/Schemas.ts", import.meta.url).href)
    ])
    const reference = {
      commands: await commandsPage(),
      "operating-api": httpPage(),
      schemas: schemasPage(),
      messages: messagesPage()
    }
    return [...Object.entries(reference).map(([name, text]) => [`reference/${name}`, text]), ...linkedPages()]
      .map(([page, content]) => ({ params: { page }, content }))
  }
}
