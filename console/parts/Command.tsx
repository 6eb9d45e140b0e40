/** A button that runs a command after a confirmation, and says what happened. */
import { signal } from "@preact/signals"
import type { ComponentChildren } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { mayOperate, RequestError } from "../Client.ts"
import { refresh } from "../Live.ts"
import { Failure } from "./Basics.tsx"

/** The result of the last command; screen readers read it aloud. */
export const outcome = signal("")

export interface CommandProps {
  /** The text of the button. */
  readonly label: string
  /** The heading of the dialog. */
  readonly title: string
  /** The effect of the command, in the dialog. */
  readonly children: ComponentChildren
  /** The text of the button that confirms. */
  readonly confirm: string
  readonly tone?: "danger" | "main"
  /** The dialog cannot be confirmed yet. */
  readonly isBlocked?: boolean
  /** Runs when the dialog opens. */
  readonly onOpen?: () => void
  /** Returns what happened, as a sentence. */
  readonly run: () => Promise<string>
  /** Runs after success. */
  readonly after?: () => unknown
}

const toError = (error: unknown): RequestError =>
  error instanceof RequestError ? error : new RequestError(0, String(error), null)

const Dialog = ({ after, children, close, confirm, isBlocked = false, run, title, tone }: CommandProps & {
  readonly close: () => void
}) => {
  const dialog = useRef<HTMLDialogElement>(null)
  const [state, setState] = useState<"asking" | "running" | RequestError>("asking")
  useEffect(() => {
    // the opened dialog keeps the focus inside, and Escape closes it
    dialog.current?.showModal()
  }, [])

  const execute = async (event: Event): Promise<void> => {
    event.preventDefault()
    setState("running")
    try {
      outcome.value = await run()
      close()
      await Promise.all([refresh().catch(() => undefined), after?.()])
    } catch (error) {
      setState(toError(error))
    }
  }

  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="dialog-title">
      <form onSubmit={(event) => void execute(event)}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        {state instanceof RequestError ? <Failure error={state} /> : null}
        <div class="buttons">
          <button
            type="submit"
            class={tone === "danger" ? "danger" : "main"}
            disabled={state === "running" || isBlocked}
          >
            {state === "running" ? "Working…" : confirm}
          </button>
          <button type="button" onClick={close}>Cancel</button>
        </div>
      </form>
    </dialog>
  )
}

export const Command = (props: CommandProps) => {
  const [isOpen, setOpen] = useState(false)
  const button = useRef<HTMLButtonElement>(null)
  const { label, onOpen, tone } = props
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
        title={mayOperate ? "" : "Your token allows reading only"}
        onClick={() => {
          outcome.value = ""
          onOpen?.()
          setOpen(true)
        }}
      >
        {label}
      </button>
      {isOpen ? <Dialog {...props} close={close} /> : null}
    </>
  )
}
