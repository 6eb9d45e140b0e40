/** The message of a failure, with the API's own page about the request as a link. */
import { splitLog } from "../../src/domain/FailureCause.ts"
import { Breakable } from "./Basics.tsx"

export const Message = ({ message }: { readonly message: string }) => {
  const { log, text } = splitLog(message)
  return (
    <>
      <Breakable text={text} />
      {log === null ? null : (
        <>
          {" · "}
          <a href={log} target="_blank" rel="noopener noreferrer">The API's log of the request</a>
        </>
      )}
    </>
  )
}
