/** Radio buttons: one of several values. */
export const Choices = <V extends string>({ choose, chosen, isRow = false, legend, name, texts }: {
  readonly legend: string
  readonly name: string
  /** The values, each with its text, in their order. */
  readonly texts: Readonly<Partial<Record<V, string>>>
  readonly chosen: V
  readonly choose: (value: V) => void
  /** In one row, with a legend for screen readers only. */
  readonly isRow?: boolean
}) => (
  <fieldset class={isRow ? "range" : ""}>
    <legend class={isRow ? "hidden" : ""}>{legend}</legend>
    {(Object.keys(texts) as Array<V>).map((value) => (
      <label key={value} class="choice">
        <input type="radio" name={name} checked={chosen === value} onChange={() => choose(value)} /> {texts[value]}
      </label>
    ))}
  </fieldset>
)
