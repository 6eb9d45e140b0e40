/** `rollcall sessions list | end`: the sessions of users who are signed in to the operating API. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SessionView } from "../http/contract/SessionApi.ts"
import { clientCommand } from "./client/ClientCommand.ts"
import { nameArgument, switchFlag } from "./terminal/Flags.ts"
import { refuse } from "./terminal/Process.ts"
import { formatPlural, table } from "./terminal/Tables.ts"

const sessionTable = (sessions: ReadonlyArray<SessionView>): string =>
  table(sessions, {
    SESSION: ({ id }) => id,
    RIGHT: ({ right }) => right,
    ADDRESS: ({ address }) => address,
    STARTED: ({ started_at }) => started_at,
    "LAST REQUEST": ({ last_request_at }) => last_request_at,
    EXPIRES: ({ expires_at }) => expires_at
  })

const list = clientCommand("list", {
  description: "List the sessions of users who signed in",
  flags: {},
  request: (client) => Effect.map(client.sessions.list(), ({ items }) => items),
  text: (sessions) => sessions.length === 0 ? "no sessions" : sessionTable(sessions)
})

const end = clientCommand("end", {
  description: "End one session, or all of them",
  examples: [{ command: "rollcall sessions end --all", description: "Sign everyone out" }],
  flags: {
    session: nameArgument("session", "Id of the session, as `rollcall sessions list` shows it").pipe(Argument.optional),
    all: switchFlag("all", "End every session")
  },
  request: Effect.fnUntraced(function*(client, { all, session }) {
    if (all === Option.isSome(session)) {
      return yield* refuse(
        all ? "a session and --all are both given" : "no session is named",
        "Write `rollcall sessions end <session>`, or pass --all."
      )
    }
    return Option.isSome(session)
      ? yield* client.sessions.end({ params: { id: session.value } })
      : yield* client.sessions.endAll()
  }),
  text: ({ ended }: { readonly ended: number }) => `${formatPlural(ended, "session")} ended`
})

export const sessions = Command.make("sessions").pipe(
  Command.withDescription("List and end the sessions of users who signed in, in any process"),
  Command.withSubcommands([list, end])
)
