/** Mutants that run plugins and send their writes with one defense less. */
import { type Mutant, mutant } from "./Mutant.ts"

export const deliveryMutants: ReadonlyArray<Mutant> = [
  mutant("lost-claims", "deliveries whose claim was committed without a response are claimed again", [
    "if (isClaimUncertain) yield* releaseLostClaims\n",
    "isClaimUncertain = false\n"
  ]),
  mutant("no-echo", "a plugin's write is published with its cause", [
    "if (!tx.hasExpectations || ",
    "if (tx.hasExpectations || "
  ]),
  mutant("echo-takes-all", "other changes beside a plugin's write keep no cause", [
    'own.has("") ? [""] : withStamps(own, event.changes)',
    'own.has("") ? [""] : event.changes.map(({ path }) => path)'
  ]),
  mutant("undeclared-write", "a write that a plugin does not declare is not sent", [
    "needs?.writes?.includes(write) !== true",
    "needs?.writes?.includes(write) !== true && write.length < 0"
  ]),
  mutant("no-intent", "a write is recorded before it is sent", [
    "      if (known === undefined) {\n",
    "      if (known === undefined && now < 0) {\n"
  ]),
  mutant("refusals-count", "a request that the API does not accept now uses up no attempt", [
    "  if (blockedBy !== null) {\n",
    "  if (blockedBy !== null && account.length < 0) {\n"
  ]),
  mutant("blocked-for-good", "deliveries that the API refused are tried again after a minute", [
    "end > now && end - now <= blockedWait",
    "end > now"
  ], [
    "ends.set(awaited, now + blockedWait)",
    "ends.set(awaited, Infinity)"
  ]),
  mutant("refused-intent-stays", "a write that the API certainly refused leaves no intent", [
    "hasNoEffect(failed.value)",
    "failed.value.reason.notSent === true"
  ]),
  mutant("no-attempt-fence", "no write is sent for an attempt that another process has taken over", [
    "  const requireClaim = Effect.fnUntraced(function*({ claim, delivery, owner }: FencingToken) {\n    yield* fence(owner)\n",
    "  const requireClaim = Effect.fnUntraced(function*({ claim, delivery, owner }: FencingToken) {\n    if (owner.epoch < 0) yield* fence(owner)\n"
  ], [
    "    if (row === undefined) return yield* Fencing.fencedError",
    "    if (row === undefined && claim < 0) return yield* Fencing.fencedError"
  ]),
  mutant("batches-forgotten", "a replayed batch uses the journal of the batch in which its events were delivered", [
    "LEFT JOIN batch_members m ON m.handler = d.handler",
    "LEFT JOIN batch_members m ON m.handler < 0 AND m.handler = d.handler"
  ]),
  mutant("checked-before-its-turn", "a write is checked and begun when it gets its slot, not before it waits for it", [
    "const hooks = hooksOf(key, wanted, allowRepeat)\n",
    "const { before, ...rest } = hooksOf(key, wanted, allowRepeat)\n    const hooks = { before: Effect.void, ...rest }\n"
  ], [
    "restore(source.write(prepared, hooks))",
    "restore(Effect.andThen(before, source.write(prepared, hooks)))"
  ]),
  mutant("sent-however-late", "a process that froze after the check does not send", [
    "if ((yield* gap) > Duration.toMillis(maxSendDelay)) ",
    "if ((yield* gap) > Infinity) "
  ]),
  mutant(
    "no-delivery-fence",
    "a process settles and claims no deliveries of a shard that another process has taken over",
    [
      "    return owners.filter(({ epoch, scope }) => newest.get(scope) !== epoch)\n",
      "    return owners.filter(({ epoch, scope }) => (newest.get(scope) ?? 0) < epoch)\n"
    ]
  ),
  mutant("unshared-circuits", "a process gets no delivery of a handler whose circuit another process opened", [
    "    if (circuit.openUntil === null) return { permits",
    "    if (circuit.openUntil === null || handler >= 0) return { permits"
  ], [
    "HandlerCircuit.afterAttempt(circuit, failed, now), next)",
    "HandlerCircuit.afterAttempt(circuit, failed, now), known)"
  ], [
    "if (most <= 0 || ",
    "if (most <= 0 || !handlerQueue.breaker.isClosed() || "
  ])
]
