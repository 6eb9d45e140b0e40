/** Constants that the build replaces by values from `src`, whose modules would bring the whole contract of the API into the script. */
/** Words and their meaning, from `docs/index.md`. */
declare const GLOSSARY: ReadonlyArray<readonly [words: string, meaning: string]>
