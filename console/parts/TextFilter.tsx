/** A filter that the user types. It applies with Enter or when the field is left; what is typed stays while the page is updated. */
import { useState } from "preact/hooks"
import { parameter, setParameters } from "../Router.ts"

export const TextFilter = ({ label, name }: { readonly label: string; readonly name: string }) => {
  const [typed, setTyped] = useState<string | null>(null)
  return (
    <label>
      {label}
      <input
        type="search"
        value={typed ?? parameter(name)}
        onInput={({ currentTarget: { value } }) => setTyped(value)}
        onChange={({ currentTarget: { value } }) => {
          setParameters({ [name]: value.trim(), after: "" })
          setTyped(null)
        }}
      />
    </label>
  )
}
