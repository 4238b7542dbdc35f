/** Request policies. Their rules are one document, so that a rule of a later version is noticed and never ignored. */

import { z } from "zod";
import {
  EFFORTS,
  FORCED_MEMBERS,
  INPUT_KINDS,
  OUTPUT_TOKENS_MIN,
  OVER_DENIED,
  OVER_MAXIMUM,
  type RequestPolicyRecord,
  type RequestRules,
  TOOL_KINDS,
} from "../../records/request-policy.ts";
import { rejectReferenced, StoreConflict } from "../engine/conflict.ts";
import { type Db, type Row, transaction } from "../engine/db.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { flag, integer, text } from "../engine/row.ts";
import { rejectEarlierNodes } from "./earlier-nodes.ts";

const names = z.array(z.string()).min(1);
const tokens = z.int().positive();
const inputLimit = z.union([z.int().nonnegative(), z.literal("deny")]).optional();

const rulesForm: z.ZodType<RequestRules> = z.strictObject({
  models: names.optional(),
  networks: names.optional(),
  input_tokens: z.strictObject({ max: tokens }).optional(),
  output_tokens: z
    .strictObject({ max: tokens.min(OUTPUT_TOKENS_MIN), over: z.enum(OVER_MAXIMUM).optional() })
    .optional(),
  effort: z.strictObject({ max: z.enum(EFFORTS), over: z.enum(OVER_MAXIMUM).optional() }).optional(),
  service_tiers: names.optional(),
  tools: z
    .strictObject({ deny: z.array(z.enum(TOOL_KINDS)).min(1), over: z.enum(OVER_DENIED).optional() })
    .optional(),
  inputs: z.strictObject(Object.fromEntries(INPUT_KINDS.map((kind) => [kind, inputLimit]))).optional(),
  force: z
    .strictObject(Object.fromEntries(FORCED_MEMBERS.map((name) => [name, z.literal(false).optional()])))
    .optional(),
});

/** The migration that adds request policies. A program that does not know it would ignore them. */
const SCHEMA_WITH_POLICIES = 2;

export async function listRequestPolicies(db: Db): Promise<RequestPolicyRecord[]> {
  const rows = await db.sql`
    SELECT name, self_service, rules, created_at_ms FROM request_policy ORDER BY created_at_ms, name`;
  return rows.map((row) => ({
    name: text(row, "name"),
    selfService: flag(row, "self_service"),
    rules: readRules(row),
    createdAtMs: integer(row, "created_at_ms"),
  }));
}

function readRules(row: Row): RequestRules | null {
  const parsed = rulesForm.safeParse(JSON.parse(text(row, "rules")));
  return parsed.success ? parsed.data : null;
}

export async function putRequestPolicy(db: Db, policy: RequestPolicyRecord): Promise<void> {
  const { name, selfService, rules, createdAtMs } = policy;
  await transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    await rejectEarlierNodes(tx, SCHEMA_WITH_POLICIES, `The request policy "${name}"`);
    await tx.sql`
      INSERT INTO request_policy (name, self_service, rules, created_at_ms)
      VALUES (${name}, ${Number(selfService)}, ${JSON.stringify(rules)}, ${createdAtMs})
      ON CONFLICT (name) DO UPDATE SET self_service = excluded.self_service, rules = excluded.rules`;
  });
}

/** Returns false if the policy did not exist. Revoked keys do not prevent the deletion. */
export async function deleteRequestPolicy(db: Db, name: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    const phrase = `The request policy "${name}" is still used by`;
    const groups = await tx.sql`
      SELECT name FROM key_group WHERE request_policy = ${name} ORDER BY created_at_ms, id`;
    rejectReferenced(phrase, "group", groups);
    const keys = await tx.sql`
      SELECT name FROM api_key WHERE request_policy = ${name} AND status = 'active' ORDER BY created_at_ms, id`;
    rejectReferenced(phrase, "key", keys);
    const deleted = await tx.sql`DELETE FROM request_policy WHERE name = ${name} RETURNING name`;
    return deleted.length > 0;
  });
}

/** For a record that names a policy. */
export async function rejectMissingPolicy(tx: Db, name: string | null): Promise<void> {
  if (name === null) return;
  const found = await tx.sql`SELECT name FROM request_policy WHERE name = ${name}`;
  if (found.length === 0) throw new StoreConflict("missing", `The request policy "${name}" does not exist.`);
}

/** How many groups and active keys name each policy. */
export async function countPolicyUse(
  db: Db,
): Promise<ReadonlyMap<string, { readonly groups: number; readonly keys: number }>> {
  const groups = await db.sql`
    SELECT request_policy AS name, COUNT(*) AS many FROM key_group
    WHERE request_policy IS NOT NULL GROUP BY request_policy`;
  const keys = await db.sql`
    SELECT request_policy AS name, COUNT(*) AS many FROM api_key
    WHERE request_policy IS NOT NULL AND status = 'active' GROUP BY request_policy`;
  const keysByPolicy = new Map(keys.map((row) => [text(row, "name"), integer(row, "many")]));
  const groupsByPolicy = new Map(groups.map((row) => [text(row, "name"), integer(row, "many")]));
  const names = new Set([...keysByPolicy.keys(), ...groupsByPolicy.keys()]);
  return new Map(
    [...names].map((name) => [
      name,
      { groups: groupsByPolicy.get(name) ?? 0, keys: keysByPolicy.get(name) ?? 0 },
    ]),
  );
}
