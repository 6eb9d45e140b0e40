/**
 * The place of a span in its trace, and its text form `traceparent` (W3C Trace Context, level 1). Only recorded spans have a text form
 * here, so its flag is always 01.
 */

export interface SpanContext {
  /** 32 hex digits. */
  readonly traceId: string
  /** 16 hex digits. */
  readonly spanId: string
}

export const formatTraceparent = ({ spanId, traceId }: SpanContext): string => `00-${traceId}-${spanId}-01`

/** null: there is no text, or it does not name a recorded span. */
export const parseTraceparent = (text: string | null): SpanContext | null => {
  const [, traceId = "", spanId = ""] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-01$/.exec(text ?? "") ?? []
  return /[1-9a-f]/.test(traceId) && /[1-9a-f]/.test(spanId) ? { traceId, spanId } : null
}
