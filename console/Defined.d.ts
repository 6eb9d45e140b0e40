/** Constants that the build replaces by values from `src`, whose modules would bring the whole contract of the API into the script. */
declare const MODEL_NAMES: ReadonlyArray<string>
declare const TRANSITION_NAMES: ReadonlyArray<string>
