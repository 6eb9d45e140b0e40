/** A button that runs a command, mostly after a confirmation, and says what happened. */
import { signal } from "@preact/signals"
import type { ComponentChildren } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { mayOperate, RequestError } from "../Client.ts"
import { refresh } from "../Live.ts"
import { Failure } from "./Basics.tsx"

export interface Outcome {
  /** `warn`: the command was accepted, and something delays its effect. */
  readonly tone: "good" | "warn" | "bad"
  readonly text: string
}

/** The result of the last command; screen readers read it aloud. */
export const outcome = signal<Outcome | null>(null)

export interface CommandProps {
  /** The text of the button. */
  readonly label: string
  /** Where a page has several buttons with this label: what this one applies to, for a screen reader. */
  readonly subject?: string
  /** The heading of the dialog. */
  readonly title: string
  /** The effect of the command, in the dialog. */
  readonly children: ComponentChildren
  /** The text of the button that confirms. */
  readonly confirm: string
  readonly tone?: "danger" | "main"
  /** The effect of the command in a sentence, when the pointer rests on the button. */
  readonly hint?: string
  /** The dialog cannot be confirmed yet. */
  readonly isBlocked?: boolean
  /** Runs when the dialog opens. */
  readonly onOpen?: () => void
  /** Runs at the click. Returns null if the user has to decide something first: only then does the dialog open. */
  readonly direct?: () => Promise<string | Outcome | null>
  /** Returns what happened; a text is a success. `show` tells how far a long command is. */
  readonly run: (show: (progress: string) => void) => Promise<string | Outcome>
  /** Runs after success. */
  readonly after?: () => unknown
}

const readOnly = "Your token allows reading only"

const toOutcome = (result: string | Outcome): Outcome =>
  typeof result === "string" ? { tone: "good", text: result } : result

const toError = (error: unknown): RequestError =>
  error instanceof RequestError
    ? error
    : new RequestError(0, error instanceof Error ? error.message : String(error), null)

/** The element that had the focus is gone, as a button is after its command. The keyboard continues at the heading then. */
const keepFocus = (): void => {
  if (document.activeElement !== null && document.activeElement !== document.body) return
  document.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true })
}

const Dialog = ({ after, children, close, confirm, isBlocked = false, run, title, tone }: CommandProps & {
  readonly close: () => void
}) => {
  const dialog = useRef<HTMLDialogElement>(null)
  const isOpen = useRef(true)
  const [state, setState] = useState<{ readonly progress: string } | RequestError | null>(null)
  const isRunning = state !== null && !(state instanceof RequestError)
  useEffect(() => {
    // the opened dialog keeps the focus inside, and Escape closes it
    dialog.current?.showModal()
    return () => isOpen.current = false
  }, [])

  const execute = async (event: Event): Promise<void> => {
    event.preventDefault()
    if (isBlocked || isRunning) return
    setState({ progress: "Working…" })
    try {
      const result = await run((progress) => setState({ progress }))
      outcome.value = toOutcome(result)
      if (isOpen.current) close()
      await Promise.all([refresh().catch(() => undefined), after?.()])
      keepFocus()
    } catch (error) {
      const failed = toError(error)
      if (isOpen.current) setState(failed)
      else outcome.value = { tone: "bad", text: `${title} ${failed.message} ${failed.hint ?? ""}` }
    }
  }

  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="dialog-title">
      <form onSubmit={(event) => void execute(event)}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        {state instanceof RequestError ? <Failure error={state} /> : null}
        <p class="quiet" role="status">
          {isRunning ? `${state.progress} The command continues if you close this.` : ""}
        </p>
        <div class="buttons">
          <button
            type="submit"
            class={tone === "danger" ? "danger" : "main"}
            aria-disabled={isRunning || isBlocked}
          >
            {confirm}
          </button>
          <button type="button" onClick={close}>{isRunning ? "Close" : "Cancel"}</button>
        </div>
      </form>
    </dialog>
  )
}

/** Runs a command at a click. It ignores clicks while the command runs, and returns false if nothing was done. */
const useClick = (run: () => Promise<string | Outcome | null>, after: CommandProps["after"]) => {
  const [isRunning, setRunning] = useState(false)
  // a second click may come before the button is rendered again
  const running = useRef(false)
  const execute = async (): Promise<boolean> => {
    if (running.current) return true
    running.current = true
    outcome.value = null
    setRunning(true)
    const result = await run().catch((error: unknown): Outcome => {
      const { hint, message } = toError(error)
      return { tone: "bad", text: `${message} ${hint ?? ""}` }
    })
    running.current = false
    setRunning(false)
    if (result === null) return false
    outcome.value = toOutcome(result)
    await Promise.all([refresh().catch(() => undefined), after?.()])
    keepFocus()
    return true
  }
  return { isRunning, execute }
}

/** Without a confirmation, for a command that can be undone. */
export const Immediate = ({ after, label, run }: Pick<CommandProps, "after" | "label"> & {
  readonly run: () => Promise<string>
}) => {
  const { execute, isRunning } = useClick(run, after)
  return (
    <button
      type="button"
      disabled={!mayOperate}
      title={mayOperate ? "" : readOnly}
      aria-disabled={isRunning}
      onClick={() => void execute()}
    >
      {label}
    </button>
  )
}

export const Command = (props: CommandProps) => {
  const [isOpen, setOpen] = useState(false)
  const button = useRef<HTMLButtonElement>(null)
  const { after, direct = async () => null, hint = "", label, onOpen, subject, tone } = props
  const { execute, isRunning } = useClick(direct, after)
  const open = async (): Promise<void> => {
    if (await execute()) return
    onOpen?.()
    setOpen(true)
  }
  const close = () => {
    setOpen(false)
    button.current?.focus()
  }
  return (
    <>
      <button
        ref={button}
        type="button"
        class={tone ?? ""}
        disabled={!mayOperate}
        title={mayOperate ? hint : readOnly}
        aria-disabled={isRunning}
        onClick={() => void open()}
      >
        {label}
        {subject === undefined ? null : <span class="hidden">{" "}{subject}</span>}
      </button>
      {isOpen ? <Dialog {...props} close={close} /> : null}
    </>
  )
}
