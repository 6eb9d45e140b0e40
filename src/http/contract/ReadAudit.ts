/** Marks the endpoints whose use is noted in the audit log (`audit/ReadAudit.ts`). */
import * as Context from "effect/Context"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"

/** Whether responses of an endpoint contain content or ids of records. */
export const ShowsRecords = Context.Reference<boolean>("rollcall/http/ShowsRecords", { defaultValue: () => false })

export class ReadAudit extends HttpApiMiddleware.Service<ReadAudit>()("rollcall/http/ReadAudit") {}
