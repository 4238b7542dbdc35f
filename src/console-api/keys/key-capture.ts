/** What is captured of one key. An order is recorded in the audit log, and in force when the promise resolves. */

import { z } from "zod";

import { changedFields } from "../../config/state/difference.ts";
import { ApiError } from "../../errors.ts";
import { CAPTURE_MODES, type CaptureMode, type KeyCapture } from "../../records/capture.ts";
import { type KeyRecord, keyTitle } from "../../records/key.ts";
import { readKeyCapture, writeKeyCapture } from "../../store/captures/key-captures.ts";
import { transaction } from "../../store/engine/db.ts";
import { findUser } from "../../store/identity/users.ts";
import { ownKey } from "../auth/owner.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import type { ConsoleAuthor } from "../changes/change.ts";
import type { PolicyContext } from "../context.ts";
import type { Actor } from "../http/route.ts";

export const captureOrder = z.object({
  /** Null: the mode of the group applies. */
  mode: z.enum(CAPTURE_MODES).nullable(),
  group_mode: z.enum(CAPTURE_MODES),
  /** How many of the next requests are captured, whatever the mode; 0 if none was ordered. */
  remaining: z.number(),
  /** When the order ends; null if there is none. */
  until_at: z.number().nullable(),
});

type Services = PolicyContext;

const NOTHING: KeyCapture = { mode: null, remaining: 0, untilMs: 0 };

export async function readKeyOrder(
  context: Services,
  actor: Actor,
  keyId: string,
): Promise<z.input<typeof captureOrder>> {
  const { db } = context.installation;
  const key = await ownKey(db, actor, keyId);
  await context.gateway.captures.flush();
  return orderObject(context, key, (await readKeyCapture(db, key.id)) ?? NOTHING);
}

interface OrderForm {
  readonly mode: CaptureMode | null;
  /** Undefined keeps the order that is running. */
  readonly next?: { readonly requests: number; readonly for_ms: number } | null | undefined;
}

export async function setKeyOrder(
  context: Services,
  author: ConsoleAuthor,
  keyId: string,
  { mode, next }: OrderForm,
): Promise<z.input<typeof captureOrder>> {
  const { db, clock } = context.installation;
  const key = await ownKey(db, author.actor, keyId);
  const user = key.userId === null ? null : await findUser(db, key.userId);
  const atMs = clock.nowMs();
  const order = next === undefined ? undefined : buildOrder(next, atMs);
  const capture = await transaction(db, async (tx) => {
    const before = (await readKeyCapture(tx, key.id)) ?? NOTHING;
    if (!(await writeKeyCapture(tx, key.id, { mode, order })))
      throw new ApiError("conflict", "This key is revoked, so it has no more requests. Choose another key.");
    const after = (await readKeyCapture(tx, key.id)) ?? NOTHING;
    const changes = changedFields(formatOrder(before, atMs), formatOrder(after, atMs));
    if (changes.length > 0) {
      const target = keyTitle(key.name, user?.email ?? null);
      await recordChange(tx, author, { atMs, action: "key.capture", target, changes });
    }
    return after;
  });
  await context.gateway.policy.refresh();
  return orderObject(context, key, capture);
}

function buildOrder(next: NonNullable<OrderForm["next"]> | null, nowMs: number) {
  return next === null
    ? { remaining: 0, untilMs: 0 }
    : { remaining: next.requests, untilMs: nowMs + next.for_ms };
}

function formatOrder({ mode, remaining, untilMs }: KeyCapture, nowMs: number): Record<string, string> {
  const isOpen = remaining > 0 && untilMs > nowMs;
  return {
    capture: mode ?? "as its group",
    capture_next: isOpen ? `${remaining} requests until ${new Date(untilMs).toISOString()}` : "none",
  };
}

function orderObject(
  { gateway, installation }: Services,
  key: KeyRecord,
  { mode, remaining, untilMs }: KeyCapture,
): z.input<typeof captureOrder> {
  const isOpen = remaining > 0 && untilMs > installation.clock.nowMs();
  return {
    mode,
    group_mode: gateway.policy.snapshot().groups.get(key.groupId)?.capture ?? "off",
    remaining: isOpen ? remaining : 0,
    until_at: isOpen ? untilMs : null,
  };
}
