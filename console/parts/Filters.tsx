/** The filters of a list. They are in the address, so that a link shows the same list to a colleague. */
import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import { parameter, setParameters } from "../Router.ts"

/** `isTyped`: with filters that apply when they are complete. Leaving the field for the button applies them as Enter does. */
export const Filters = ({ children, isTyped = false }: {
  readonly children: ComponentChildren
  readonly isTyped?: boolean
}) => (
  <form
    class="filters"
    role="search"
    onSubmit={(event) => event.preventDefault()}
  >
    {children}
    {isTyped ? <button type="submit">Apply</button> : null}
  </form>
)

interface FilterProps {
  readonly label: string
  /** The parameter in the address. */
  readonly name: string
}

/** A filter that the user types. It applies with Enter or when the field is left; what is typed stays while the page is updated. */
export const TextFilter = ({ label, name }: FilterProps) => {
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

/** A filter that applies with each key. */
export const Search = ({ label }: { readonly label: string }) => (
  <label>
    {label}
    <input
      type="search"
      value={parameter("search")}
      onInput={({ currentTarget: { value } }) => setParameters({ search: value, after: "" })}
    />
  </label>
)

/** `all`: the text for no choice. */
export const SelectFilter = ({ all = "all", label, name, options }: FilterProps & {
  readonly options: ReadonlyArray<string>
  readonly all?: string
}) => (
  <label>
    {label}
    <select
      value={parameter(name)}
      onChange={({ currentTarget: { value } }) => setParameters({ [name]: value, after: "" })}
    >
      <option value="">{all}</option>
      {options.map((option) => <option key={option} value={option}>{option}</option>)}
    </select>
  </label>
)
