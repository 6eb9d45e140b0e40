/** The place in the code where an error was made: `file:line:column`. The stack begins with the message, which may contain values   (I11). */
export const placeOf = ({ message, stack }: Error): string | undefined =>
  // code may have set another stack
  typeof stack === "string"
    ? /^ +at .*?([^\s(/]+:\d+:\d+)\)?$/m.exec(stack.replace(message, () => ""))?.[1]
    : undefined
