/** The words of the console, which also explain the headings of tables when the pointer rests on them. */
import { Scroll, Title } from "../parts/Basics.tsx"

export const GlossaryPage = () => (
  <>
    <Title text="Glossary" />
    <Scroll label="Glossary">
      <table>
        <thead>
          <tr>
            <th>Word</th>
            <th>Meaning</th>
          </tr>
        </thead>
        <tbody>
          {GLOSSARY.map(([words, meaning]) => (
            <tr key={words}>
              <th scope="row">{words}</th>
              <td>{meaning}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  </>
)
