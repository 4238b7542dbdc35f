/**
 * Plans keys. They differ from other entries: a key is identified by user and name, a changed secret creates a
 * new key, and a revoked key stays revoked.
 */

import { type CallerLimits, type KeyRecord, NO_LIMITS } from "../../records.ts";
import { hasValidChecksum, mintApiKey, readPublicId } from "../../secrets/api-key.ts";
import { changeKey, insertKey, revokeKey } from "../../store/policy/keys.ts";
import type { FileKey } from "../schema/schema.ts";
import { parseCallerLimits } from "../schema/usage-limits.ts";
import { created, differences, secretChange, secretSet, shownKey } from "../state/difference.ts";
import type { FieldProblem } from "../state/problem.ts";
import { buildStep, type ConfigState, known, type PlanStep, type Secrets } from "../state/step.ts";

/** A key that this plan created. Its secret is not stored anywhere else. */
export interface ShownKey {
  name: string;
  user: string | null;
  group: string;
  publicId: string;
  secret: string;
}

export interface KeyPlan {
  steps: PlanStep[];
  shown: ShownKey[];
  problems: FieldProblem[];
}

interface KeyTargets {
  groups: ReadonlyMap<string, string>;
  users: ReadonlyMap<string, string>;
}

export function planKeys(
  state: ConfigState,
  wanted: FileKey[],
  targets: KeyTargets,
  secrets: Secrets,
): KeyPlan {
  const plan: KeyPlan = { steps: [], shown: [], problems: [] };
  const active = activeKeys(state);
  const byDigest = new Map(state.keys.map((key) => [key.digest, key]));
  const groupNames = new Map([...targets.groups].map(([name, id]) => [id, name]));

  wanted.forEach((entry, i) => {
    const userId = entry.user === undefined ? null : known(targets.users, entry.user);
    const groupId = known(targets.groups, entry.group);
    const expiresAtMs = entry.expires ?? null;
    const limits = parseCallerLimits(entry.limits);
    const present = active.get(keyIdentity(userId, entry.name));
    const digest = entry.secret === undefined ? undefined : secrets.digest(entry.secret);
    const what = keyTitle(entry.name, entry.user ?? null);
    const groupNameOfKey = (key: KeyRecord) => groupNames.get(key.groupId) ?? key.groupId;
    const after = shownKey({ expiresAtMs, limits }, entry.group);
    const changed =
      present === undefined ? [] : differences(shownKey(present, groupNameOfKey(present)), after);

    const owner = digest === undefined ? undefined : byDigest.get(digest);
    if (owner !== undefined && owner.id !== present?.id) {
      // Reusing a revoked secret would undo a deliberate revocation.
      const message =
        owner.status === "revoked"
          ? "this secret was revoked and stays so. Use a new one, or remove the key from the file."
          : `this secret is already in use by the key "${owner.name}". Each key needs its own.`;
      plan.problems.push({ path: ["keys", i, "secret"], message });
      return;
    }
    if (digest !== undefined && state.formerDigests.has(digest)) {
      const message =
        "this secret was replaced when its key was rotated. Put the new one here, or leave the secret out.";
      plan.problems.push({ path: ["keys", i, "secret"], message });
      return;
    }
    if (present !== undefined && (digest === undefined || digest === present.digest)) {
      const step = buildStep(what, false, changed, (tx) =>
        changeKey(tx, present.id, { name: entry.name, groupId, expiresAtMs, limits }),
      );
      if (step !== null) plan.steps.push(step);
      return;
    }

    const { record, secret } = newKey(
      { name: entry.name, userId, groupId, expiresAtMs, limits, secret: entry.secret },
      secrets,
    );
    if (entry.secret === undefined) {
      plan.shown.push({
        name: entry.name,
        user: entry.user ?? null,
        group: entry.group,
        publicId: record.publicId,
        secret,
      });
    }
    const replaced = present;
    plan.steps.push({
      kind: replaced === undefined ? "create" : "change",
      what,
      fields:
        replaced === undefined
          ? [...created(after), secretSet("secret")]
          : [...changed, secretChange("secret")],
      write: async (tx) => {
        if (replaced !== undefined) await revokeKey(tx, replaced.id, record.createdAtMs);
        await insertKey(tx, record);
      },
    });
  });
  return plan;
}

export interface NewKey {
  name: string;
  userId: string | null;
  groupId: string;
  expiresAtMs: number | null;
  /** If omitted, the key has no limits. */
  limits?: CallerLimits | undefined;
  /** If omitted, a secret is generated. */
  secret?: string | undefined;
}

export function newKey(wanted: NewKey, secrets: Secrets): { record: KeyRecord; secret: string } {
  const secret = wanted.secret ?? mintApiKey(secrets.randomBytes).secret;
  const digest = secrets.digest(secret);
  const record: KeyRecord = {
    id: secrets.newId("key"),
    name: wanted.name,
    userId: wanted.userId,
    groupId: wanted.groupId,
    digest,
    publicId: readPublicId(secret, digest),
    // No part of an imported secret is stored.
    last4: hasValidChecksum(secret) ? secret.slice(-4) : "",
    status: "active",
    expiresAtMs: wanted.expiresAtMs,
    limits: wanted.limits ?? NO_LIMITS,
    createdAtMs: secrets.clock.nowMs(),
    revokedAtMs: null,
  };
  return { record, secret };
}

/** Active keys by user and name, which identify a key. The newest of several keys with the same identity wins. */
export function activeKeys(state: ConfigState): Map<string, KeyRecord> {
  const active = new Map<string, KeyRecord>();
  for (const key of state.keys) {
    if (key.status === "active") active.set(keyIdentity(key.userId, key.name), key);
  }
  return active;
}

export function keyIdentity(userId: string | null, name: string): string {
  return JSON.stringify([userId, name]);
}

export function keyTitle(name: string, email: string | null): string {
  return email === null ? `key ${name}` : `key ${name} of ${email}`;
}
