/**
 * Changes one key for its owner or an administrator, with the same records and checks as a configuration file,
 * but without reading all keys. When the promise resolves, the change is in the database and the audit log,
 * and it is in force.
 */

import { limits as productLimits } from "../../config/limits/product-limits.ts";
import { NO_PAYER } from "../../config/parse/check-charging.ts";
import { newKey } from "../../config/plan/plan-keys.ts";
import { limitsText } from "../../config/schema/usage-limits.ts";
import { changedFields, createdFields, secretChange, secretSet } from "../../config/state/difference.ts";
import { formatKey } from "../../config/state/to-file-shape.ts";
import { ApiError, paramError } from "../../errors.ts";
import type { PolicyGroup } from "../../policy/snapshot.ts";
import type { KeyFallback } from "../../records/fallback.ts";
import { type KeyRecord, keyTitle } from "../../records/key.ts";
import type { CallerLimits } from "../../records/limits.ts";
import type { FieldChange } from "../../records/policy.ts";
import type { UserRecord } from "../../records/user.ts";
import { mintApiKey } from "../../secrets/api-key.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import { findUser } from "../../store/identity/users.ts";
import {
  changeKey,
  countActiveKeys,
  findKey,
  insertKey,
  isKeyNameTaken,
  type KeyCeiling,
  NO_CEILING,
  readKeyCeiling,
  revokeKey,
  rotateKey,
} from "../../store/policy/keys.ts";
import { listRequestPolicies } from "../../store/policy/request-policies.ts";
import { isToolKey } from "../../store/policy/tool-keys.ts";
import { requireLiveActor } from "../auth/actor.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import type { ConsoleAuthor } from "../changes/change.ts";
import type { ConsoleContext, PolicyContext } from "../context.ts";
import { rejectLimitsBeyond, rejectLooserLimits } from "../forms/limits-form.ts";
import { fieldError } from "../http/field-error.ts";
import { lookUpGroupName } from "./key-view.ts";
import { mayUse } from "./usable-groups.ts";

interface NewKeyRequest {
  userId: string;
  name: string;
  group: string;
  expiresAtMs: number | null;
  limits: CallerLimits;
  requestPolicy: string | null;
  fallback: KeyFallback;
}

export async function createKey(
  context: PolicyContext,
  author: ConsoleAuthor,
  keyRequest: NewKeyRequest,
): Promise<{ key: KeyRecord; secret: string }> {
  const { installation, gateway } = context;
  const { db, clock } = installation;
  const { name, userId, expiresAtMs, limits, requestPolicy, fallback } = keyRequest;
  const user = await findUser(db, userId);
  if (user === null) throw paramError("user", "not_found", "This user does not exist.");
  const group = requireGroup(context, author, user, keyRequest.group);
  rejectPast(expiresAtMs, clock.nowMs());
  rejectLooserLimits(limits, group);
  const settings = { name, userId, groupId: group.id, expiresAtMs, limits, requestPolicy, fallback };
  const { record, secret } = newKey(settings, installation);
  await transaction(db, async (tx) => {
    // The insertion takes the lock for key changes: data that was read before it may be outdated.
    await insertKey(tx, record, author.actor.role === "admin" ? record : NO_CEILING);
    await requireLiveActor(tx, author.actor);
    await rejectTakenName(tx, record);
    await rejectTooManyKeys(tx, author, userId);
    await rejectForeignPolicy(tx, author, { from: null, to: requestPolicy });
    const changes = [...createdFields(formatKey(record, group.name)), secretSet("secret")];
    await logChange(tx, author, "key.create", { key: record, user, atMs: record.createdAtMs, changes });
  });
  await gateway.policy.refresh();
  return { key: record, secret };
}

type KeyEdit = Partial<Pick<KeyRecord, "name" | "expiresAtMs" | "limits" | "requestPolicy" | "fallback">>;

export async function editKey(
  context: PolicyContext,
  author: ConsoleAuthor,
  key: KeyRecord,
  edit: KeyEdit,
): Promise<KeyRecord> {
  const { db, clock } = context.installation;
  const group = context.gateway.policy.snapshot().groups.get(key.groupId);
  const user = key.userId === null ? null : await findUser(db, key.userId);
  if (edit.expiresAtMs !== undefined) rejectPast(edit.expiresAtMs, clock.nowMs());
  if (edit.limits !== undefined && group !== undefined) rejectLooserLimits(edit.limits, group);
  const groupName = lookUpGroupName(context, key.groupId);
  const describeKey = (one: KeyRecord) => ({ name: one.name, ...formatKey(one, groupName) });
  const edited = await transaction(db, async (tx) => {
    // Takes the lock: fields that are not edited must have their current value, not the one that was read
    // before.
    await bumpKeyRevision(tx);
    const present = await findKey(tx, key.id);
    if (present?.status !== "active") throw alreadyRevokedError();
    if (edit.expiresAtMs !== undefined) await rejectTool(tx, key.id);
    const after: KeyRecord = { ...present, ...edit };
    const changes = changedFields(describeKey(present), describeKey(after));
    if (changes.length === 0) return present;
    const ceiling = await readKeyCeiling(tx, key.id);
    const isOperator = author.actor.role === "admin";
    // An owner who could no longer create this key may not extend it.
    const mayMake = group !== undefined && user !== null && mayUse(group, user);
    if (!isOperator) rejectBeyond(edit, mayMake ? ceiling : present);
    await rejectForeignPolicy(tx, author, { from: present.requestPolicy, to: after.requestPolicy });
    if (present.fallback === "deny" && after.fallback === null) rejectFallback(author, { key: after, group });
    const newCeiling = isOperator ? changedBounds(present, after) : {};
    await changeKey(tx, key.id, after, { ...ceiling, ...newCeiling });
    if (after.name !== present.name) await rejectTakenName(tx, after);
    await logChange(tx, author, "key.change", { key: present, user, atMs: clock.nowMs(), changes });
    return after;
  });
  await context.gateway.policy.refresh();
  return edited;
}

/**
 * Replaces the secret of a key. Usage, remaining limits and affinity are kept. The old secret works for
 * `overlapMs`, and both count against the same limits.
 */
export async function rotate(
  context: PolicyContext,
  author: ConsoleAuthor,
  key: KeyRecord,
  overlapMs: number,
): Promise<{ key: KeyRecord; secret: string; worksUntilMs: number }> {
  const { db, clock, digest, randomBytes } = context.installation;
  const user = key.userId === null ? null : await findUser(db, key.userId);
  const { secret, last4 } = mintApiKey(randomBytes, key.publicId);
  const fresh = { digest: digest(secret), last4 };
  const atMs = clock.nowMs();
  const worksUntilMs = atMs + overlapMs;
  const formerMax = productLimits.formerSecretsMax;
  await transaction(db, async (tx) => {
    await rejectTool(tx, key.id);
    if (!(await rotateKey(tx, key.id, fresh, { atMs, worksUntilMs, formerMax }))) throw alreadyRevokedError();
    await requireLiveActor(tx, author.actor);
    const overlapChange = {
      field: "old_secret_works_until",
      from: null,
      to: new Date(worksUntilMs).toISOString(),
    };
    await logChange(tx, author, "key.rotate", {
      key,
      user,
      atMs,
      changes: [secretChange("secret"), overlapChange],
    });
  });
  await context.gateway.policy.refresh();
  return { key: { ...key, ...fresh }, secret, worksUntilMs };
}

/** Returns false if the key was already revoked. */
export async function revoke(
  context: PolicyContext,
  author: ConsoleAuthor,
  key: KeyRecord,
): Promise<boolean> {
  const { db, clock } = context.installation;
  const atMs = clock.nowMs();
  const user = key.userId === null ? null : await findUser(db, key.userId);
  const revoked = await transaction(db, async (tx) => {
    if (!(await revokeKey(tx, key.id, atMs))) return false;
    const changes = [{ field: "status", from: "active", to: "revoked" }];
    await logChange(tx, author, "key.revoke", { key, user, atMs, changes });
    return true;
  });
  await context.gateway.policy.refresh();
  return revoked;
}

interface LoggedChange {
  key: KeyRecord;
  user: UserRecord | null;
  atMs: number;
  changes: FieldChange[];
}

export async function logChange(
  tx: Db,
  author: ConsoleAuthor,
  action: string,
  { key, user, atMs, changes }: LoggedChange,
) {
  const target = keyTitle(key.name, user?.email ?? null);
  await recordChange(tx, author, { atMs, action, target, changes });
}

function requireGroup(
  { gateway }: Pick<ConsoleContext, "gateway">,
  { actor }: ConsoleAuthor,
  user: UserRecord,
  name: string,
): PolicyGroup {
  const groups = [...gateway.policy.snapshot().groups.values()];
  const group = groups.find((candidate) => candidate.name === name);
  // Administrators may create a key in any group for any user.
  if (group !== undefined && (actor.role === "admin" || mayUse(group, user))) return group;
  throw fieldError(
    "group",
    "invalid_value",
    `you cannot create keys in the group "${name}", or it does not exist. GET /api/groups lists your groups.`,
  );
}

/** The bounds that an edit changes. Values that the form only repeats are not counted as set by its sender. */
function changedBounds(present: KeyRecord, after: KeyRecord): Partial<KeyCeiling> {
  return {
    ...(after.expiresAtMs !== present.expiresAtMs && { expiresAtMs: after.expiresAtMs }),
    ...(limitsText(after.limits) !== limitsText(present.limits) && { limits: after.limits }),
  };
}

/** Owners may tighten the limits that an operator set, and undo that again, but not exceed them. */
function rejectBeyond({ expiresAtMs, limits }: KeyEdit, ceiling: KeyCeiling): void {
  if (limits !== undefined) rejectLimitsBeyond(limits, ceiling.limits);
  const last = ceiling.expiresAtMs;
  if (expiresAtMs === undefined || last === null || (expiresAtMs !== null && expiresAtMs <= last)) return;
  throw fieldError(
    "expires_at",
    "invalid_value",
    `an administrator set the expiry of this key to ${new Date(last).toISOString()}. Choose the same or an earlier time, or ask an administrator.`,
  );
}

/** Owners choose among the policies that an administrator offers, and cannot replace another one. */
async function rejectForeignPolicy(
  tx: Db,
  { actor }: ConsoleAuthor,
  { from, to }: { from: string | null; to: string | null },
): Promise<void> {
  if (actor.role === "admin" || from === to) return;
  const offered = (await listRequestPolicies(tx)).filter(({ selfService }) => selfService);
  const isOffered = (name: string | null) => name === null || offered.some((policy) => policy.name === name);
  if (isOffered(from) && isOffered(to)) return;
  throw fieldError(
    "request_policy",
    "invalid_value",
    "choose a request policy that is offered for your keys, or ask an administrator. GET /api/request-policies lists them.",
  );
}

/** Owners may deny fallback, and not allow it again. */
function rejectFallback(
  { actor }: ConsoleAuthor,
  { key, group }: { key: KeyRecord; group: PolicyGroup | undefined },
): void {
  if (actor.role !== "admin")
    throw fieldError("fallback", "invalid_value", "only an administrator can allow it again for this key.");
  const steps = [...(group?.models.values() ?? [])].flatMap((model) => model.fallback);
  if (key.userId === null && steps.some((step) => step.group.billing.charge !== "none"))
    throw fieldError("fallback", "invalid_value", `a step of the key's group charges, and ${NO_PAYER}.`);
}

function rejectPast(expiresAtMs: number | null, nowMs: number): void {
  if (expiresAtMs === null || expiresAtMs > nowMs) return;
  throw fieldError(
    "expires_at",
    "invalid_value",
    "is in the past. Choose a later time, or remove the expiry.",
  );
}

/** Checked after the write: the key itself is one of them. */
async function rejectTakenName(tx: Db, { id, userId, name }: KeyRecord): Promise<void> {
  if (!(await isKeyNameTaken(tx, { userId, name, otherThan: id }))) return;
  throw fieldError("name", "conflict", `a key "${name}" already exists. Choose another name.`);
}

async function rejectTooManyKeys(tx: Db, { actor }: ConsoleAuthor, userId: string): Promise<void> {
  if (actor.role === "admin" || (await countActiveKeys(tx, userId)) <= productLimits.keysPerUserMax) return;
  throw new ApiError(
    "conflict",
    `You have ${productLimits.keysPerUserMax} keys, which is the maximum. Revoke an unused key.`,
  );
}

/** Its secrets are access tokens, which the tool itself renews. */
async function rejectTool(tx: Db, keyId: string): Promise<void> {
  if (!(await isToolKey(tx, keyId))) return;
  throw new ApiError(
    "conflict",
    "This is the key of a signed-in tool, which renews its secret and expiry. End the sign-in, or create a key.",
  );
}

export function alreadyRevokedError(): ApiError {
  return new ApiError("conflict", "This key is revoked permanently. Create a new key.");
}
