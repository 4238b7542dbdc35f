/**
 * Plans keys. They differ from other entries: a key is identified by user and name, a changed secret creates a
 * new key, and a revoked key stays revoked.
 */

import { createRecord, type FileRecord } from "../../records/fields.ts";
import { type FormerSecret, KEY_FIELDS, type KeyRecord, keyTitle } from "../../records/key.ts";
import { hasValidChecksum, mintApiKey, readPublicId } from "../../secrets/api-key.ts";
import { changeKey, insertFormerSecrets, insertKey, revokeKey } from "../../store/policy/keys.ts";
import type { FileKey } from "../schema/schema.ts";
import {
  changedFields,
  createdFields,
  type FieldChange,
  secretChange,
  secretSet,
} from "../state/difference.ts";
import { KEY_SHAPE } from "../state/file-shape.ts";
import type { FieldProblem } from "../state/problem.ts";
import { buildStep, type ConfigState, type PlanStep, requireId, type Secrets } from "../state/step.ts";
import { formatKey } from "../state/to-file-shape.ts";

/** A key that this plan creates. Its secret is not stored anywhere else. */
export interface GeneratedKey {
  name: string;
  user: string | null;
  group: string;
  publicId: string;
  secret: string;
}

/** The stored form of a secret that comes from another gateway. */
export interface ImportedSecret extends Pick<KeyRecord, "digest" | "publicId"> {
  /** The secrets that it replaced and that still work. */
  readonly former: readonly FormerSecret[];
}

/** By `importIdentity`. Secrets of other gateways are not part of a document. */
export type ImportedSecrets = ReadonlyMap<string, ImportedSecret>;

/** The key of a document that an imported secret belongs to. */
export function importIdentity({ user, name }: Pick<FileKey, "user" | "name">): string {
  return JSON.stringify([user?.toLowerCase() ?? null, name]);
}

export interface KeyPlan {
  steps: PlanStep[];
  shown: GeneratedKey[];
  problems: FieldProblem[];
}

interface KeyTargets {
  groups: ReadonlyMap<string, string>;
  users: ReadonlyMap<string, string>;
  imported?: ImportedSecrets | undefined;
}

export function planKeys(
  state: ConfigState,
  wanted: FileKey[],
  targets: KeyTargets,
  secrets: Secrets,
): KeyPlan {
  return new KeyPlanner(state, targets, secrets).plan(wanted);
}

/** A key of the file, with its references resolved. */
interface PlannedKey {
  entry: FileKey;
  title: string;
  values: FileRecord<typeof KEY_FIELDS>;
  /** Undefined if the file has no secret for the key. */
  digest: string | undefined;
  imported: ImportedSecret | undefined;
  /** The active key with this user and name. */
  present: KeyRecord | undefined;
}

class KeyPlanner {
  readonly #state: ConfigState;
  readonly #targets: KeyTargets;
  readonly #secrets: Secrets;
  readonly #active: ReadonlyMap<string, KeyRecord>;
  readonly #suspended: ReadonlySet<string>;
  readonly #byDigest: ReadonlyMap<string, KeyRecord>;
  readonly #groupNames: ReadonlyMap<string, string>;
  readonly #plan: KeyPlan = { steps: [], shown: [], problems: [] };

  constructor(state: ConfigState, targets: KeyTargets, secrets: Secrets) {
    this.#state = state;
    this.#targets = targets;
    this.#secrets = secrets;
    this.#active = activeKeys(state);
    this.#suspended = new Set(
      state.keys
        .filter(({ id }) => state.suspendedKeys.has(id))
        .map(({ userId, name }) => keyIdentity(userId, name)),
    );
    this.#byDigest = new Map(state.keys.map((key) => [key.digest, key]));
    this.#groupNames = new Map([...targets.groups].map(([name, id]) => [id, name]));
  }

  plan(wanted: readonly FileKey[]): KeyPlan {
    wanted.forEach((entry, index) => {
      const key = this.#resolve(entry);
      const message = this.#findSecretProblem(key);
      // The directory decides when it works again; a new key in its place would undo the suspension.
      if (this.#suspended.has(keyIdentity(key.values.userId, entry.name)) && key.present === undefined)
        return;
      if (message !== null) this.#plan.problems.push({ path: ["keys", index, "secret"], message });
      else if (key.present === undefined) this.#create(key);
      else if (key.digest === undefined || key.digest === key.present.digest) this.#change(key, key.present);
      else this.#replace(key, key.present);
    });
    return this.#plan;
  }

  #resolve(entry: FileKey): PlannedKey {
    const userId = entry.user === undefined ? null : requireId(this.#targets.users, entry.user);
    const imported = this.#targets.imported?.get(importIdentity(entry));
    return {
      entry,
      title: keyTitle(entry.name, entry.user ?? null),
      values: {
        ...KEY_SHAPE.parse(entry),
        userId,
        groupId: requireId(this.#targets.groups, entry.group),
      },
      digest:
        imported?.digest ?? (entry.secret === undefined ? undefined : this.#secrets.digest(entry.secret)),
      imported,
      present: this.#active.get(keyIdentity(userId, entry.name)),
    };
  }

  #findSecretProblem({ digest, present }: PlannedKey): string | null {
    if (digest === undefined) return null;
    const owner = this.#byDigest.get(digest);
    if (owner !== undefined && owner.id !== present?.id) {
      // Reusing a revoked secret would undo a deliberate revocation.
      return owner.status === "revoked"
        ? "this secret was revoked and cannot be used again. Use a new secret, or remove the key from the file."
        : `this secret is already used by the key "${owner.name}". Each key needs a different secret.`;
    }
    return this.#state.formerDigests.has(digest)
      ? "this secret was replaced when its key was rotated. Set the new secret, or omit the field."
      : null;
  }

  #create(key: PlannedKey): void {
    const record = this.#mint(key);
    this.#plan.steps.push({
      kind: "create",
      what: key.title,
      fields: [...createdFields(formatKey(key.values, key.entry.group)), secretSet("secret")],
      write: async (tx) => {
        await insertKey(tx, record);
        await insertFormerSecrets(tx, record, key.imported?.former ?? []);
      },
    });
  }

  #change(key: PlannedKey, present: KeyRecord): void {
    const step = buildStep(key.title, false, this.#compare(key, present), (tx) =>
      changeKey(tx, present.id, key.values),
    );
    if (step !== null) this.#plan.steps.push(step);
  }

  /** The secret in the file is new, so a new key takes the place of the present one. */
  #replace(key: PlannedKey, present: KeyRecord): void {
    const record = this.#mint(key);
    this.#plan.steps.push({
      kind: "change",
      what: key.title,
      fields: [...this.#compare(key, present), secretChange("secret")],
      write: async (tx) => {
        await revokeKey(tx, present.id, record.createdAtMs);
        await insertKey(tx, record);
      },
    });
  }

  #compare({ entry, values }: PlannedKey, present: KeyRecord): FieldChange[] {
    const groupName = this.#groupNames.get(present.groupId) ?? present.groupId;
    return changedFields(formatKey(present, groupName), formatKey(values, entry.group));
  }

  /** A generated secret is shown once, with the plan. */
  #mint({ entry, values, imported }: PlannedKey): KeyRecord {
    if (imported !== undefined) {
      const { digest, publicId } = imported;
      return buildKey({ ...values, digest, publicId, last4: "" }, this.#secrets);
    }
    const { record, secret } = newKey({ ...values, secret: entry.secret }, this.#secrets);
    if (entry.secret === undefined) {
      const { name, user = null, group } = entry;
      this.#plan.shown.push({ name, user, group, publicId: record.publicId, secret });
    }
    return record;
  }
}

/** The fields that the file has, and the secret. If omitted, a secret is generated, and the key has no limits. */
type NewKey = Pick<KeyRecord, "name" | "groupId"> &
  Partial<FileRecord<typeof KEY_FIELDS>> & { secret?: string | undefined };

export function newKey({ secret: given, ...settings }: NewKey, secrets: Secrets) {
  const secret = given ?? mintApiKey(secrets.randomBytes).secret;
  const digest = secrets.digest(secret);
  const record = buildKey(
    {
      ...settings,
      digest,
      publicId: readPublicId(secret, digest),
      // No part of an imported secret is stored.
      last4: hasValidChecksum(secret) ? secret.slice(-4) : "",
    },
    secrets,
  );
  return { record, secret };
}

function buildKey(
  fields: Omit<NewKey, "secret"> & Pick<KeyRecord, "digest" | "publicId" | "last4">,
  { newId, clock }: Secrets,
): KeyRecord {
  return createRecord(KEY_FIELDS, {
    ...fields,
    id: newId("key"),
    status: "active",
    createdAtMs: clock.nowMs(),
  });
}

/** Active keys by user and name, which identify a key, without those of tools. The newest of several keys with the same identity wins. */
export function activeKeys(state: ConfigState): Map<string, KeyRecord> {
  const active = new Map<string, KeyRecord>();
  for (const key of state.keys) {
    if (key.status === "active" && !state.toolKeys.has(key.id))
      active.set(keyIdentity(key.userId, key.name), key);
  }
  return active;
}

function keyIdentity(userId: string | null, name: string): string {
  return JSON.stringify([userId, name]);
}
