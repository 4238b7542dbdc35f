/** Routes for redeem codes, which are created in batches. The codes themselves appear in one response, once. */

import { z } from "zod";
import {
  type BatchOrder,
  CODE_DAYS_MAX,
  CODES_PER_BATCH_MAX,
  createCodes,
  voidBatch,
  voidCode,
} from "../../billing/operations/redeem.ts";
import { ApiError } from "../../errors.ts";
import { parseUsd, usdText } from "../../money/nano.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { listPlans } from "../../store/money/plans.ts";
import {
  type CodeValue,
  findRedeemBatch,
  type ListedCode,
  listRedeemBatches,
  listRedeemCodes,
} from "../../store/money/redeem-codes.ts";
import { lookUpNames } from "../../store/reports/names.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import { instantField, nameField, usdField } from "../forms/fields.ts";
import { buildPage, cursorText, pageQuery, readCursor } from "../http/page.ts";
import { forAdmins } from "../http/route.ts";

/** An amount of money, or a plan for a number of days. */
const valueFields = {
  amount: z.string().nullable(),
  plan: z.string().nullable(),
  days: z.number().nullable(),
};

const batchResponse = z.object({
  name: z.string(),
  ...valueFields,
  created_at: z.number(),
  created_by: z.string(),
  expires_at: z.number().nullable(),
  codes: z.number(),
  redeemed: z.number(),
  voided: z.number(),
  /** Neither redeemed nor voided nor expired. */
  open: z.number(),
});

const codeResponse = z.object({
  id: z.string(),
  /** The first part of the code. The whole code is not stored. */
  hint: z.string(),
  status: z.enum(["open", "redeemed", "voided", "expired"]),
  redeemed_at: z.number().nullable(),
  /** An e-mail address, or the id of a deleted user. */
  redeemed_by: z.string().nullable(),
});

const createBody = z
  .strictObject({
    name: nameField,
    count: z.int().min(1).max(CODES_PER_BATCH_MAX),
    /** USD per code; alternatively a plan. */
    amount: usdField.optional(),
    plan: z.string().optional(),
    days: z.int().min(1).max(CODE_DAYS_MAX).optional(),
    expires_at: instantField.nullable().default(null),
  })
  .refine(({ amount, plan }) => (amount === undefined) !== (plan === undefined), {
    error: "send either an amount or a plan",
    path: ["amount"],
  })
  .refine(({ plan, days }) => (plan === undefined) === (days === undefined), {
    error: "is required with a plan, and not allowed without one",
    path: ["days"],
  });

const byName = { params: z.strictObject({ name: z.string() }) };

export const adminCodeRoutes = {
  "admin.codes.list": forAdmins({
    method: "GET",
    path: "/api/admin/codes",
    summary: "List batches of redeem codes, newest first",
    query: z.strictObject(pageQuery),
    response: buildPage(batchResponse),
    async run({ installation: { db, clock } }, { query }) {
      const cursor = readCursor(query.after, z.tuple([z.number(), z.string()]));
      const { batches, next } = await listRedeemBatches(db, clock.nowMs(), {
        after: cursor === null ? null : { createdAtMs: cursor[0], name: cursor[1] },
        limit: query.limit,
      });
      const plans = await planNames(db);
      const authors = await lookUpNames(
        db,
        "user",
        batches.map(({ createdBy }) => userIdIn(createdBy)),
      );
      return {
        data: batches.map((batch) => ({
          name: batch.name,
          ...valueObject(batch.value, plans),
          created_at: batch.createdAtMs,
          created_by: authors.get(userIdIn(batch.createdBy)) ?? batch.createdBy,
          expires_at: batch.expiresAtMs,
          codes: batch.codes,
          redeemed: batch.redeemed,
          voided: batch.voided,
          open: batch.open,
        })),
        next: next === null ? null : cursorText([next.createdAtMs, next.name]),
      };
    },
  }),

  "admin.codes.create": forAdmins({
    method: "POST",
    path: "/api/admin/codes",
    summary: "Create a batch of redeem codes. The codes are returned only once.",
    body: createBody,
    tokenScope: "none",
    response: z.object({ name: z.string(), codes: z.array(z.string()) }),
    async run({ installation }, input) {
      const { name, count, amount, plan, days, expires_at } = input.body;
      const value: BatchOrder["value"] =
        plan !== undefined && days !== undefined
          ? { kind: "plan", plan, days }
          : { kind: "money", amountNano: parseUsd(amount ?? "0") };
      const actor = `admin:${input.actor.userId}`;
      const codes = await transaction(installation.db, async (tx) => {
        const order = { name, count, value, expiresAtMs: expires_at, actor };
        const created = await createCodes({ ...installation, db: tx }, order);
        const codeValue =
          value.kind === "plan" ? `${value.plan}, ${value.days} days` : `$${usdText(value.amountNano)}`;
        const changes = [
          { field: "codes", from: null, to: String(count) },
          { field: "worth", from: null, to: codeValue },
        ];
        const atMs = installation.clock.nowMs();
        await recordChange(tx, input, { atMs, action: "codes.create", target: `codes ${name}`, changes });
        return created;
      });
      return { name, codes };
    },
  }),

  "admin.codes.get": forAdmins({
    ...byName,
    method: "GET",
    path: "/api/admin/codes/:name",
    summary: "List the codes of a batch by their first characters, with their status",
    query: z.strictObject(pageQuery),
    response: buildPage(codeResponse),
    async run({ installation: { db, clock } }, { params, query }) {
      const batch = await findRedeemBatch(db, params.name);
      if (batch === null) throw new ApiError("not_found", "This batch of codes does not exist.");
      const cursor = readCursor(query.after, z.tuple([z.string()]));
      const page = { after: cursor?.[0] ?? null, limit: query.limit };
      const { codes, next } = await listRedeemCodes(db, batch.name, page);
      const emails = await lookUpNames(
        db,
        "user",
        codes.flatMap(({ redeemedBy }) => redeemedBy ?? []),
      );
      const isExpired = batch.expiresAtMs !== null && batch.expiresAtMs <= clock.nowMs();
      return {
        data: codes.map((code) => codeObject(code, isExpired, emails)),
        next: next === null ? null : cursorText([next]),
      };
    },
  }),

  "admin.codes.void": forAdmins({
    ...byName,
    method: "POST",
    path: "/api/admin/codes/:name/void",
    summary: "Void the unused codes of a batch, or one of them",
    body: z.strictObject({
      /** The id of one code; if omitted, all codes. */
      code: z.string().max(100).optional(),
    }),
    response: z.object({ voided: z.number() }),
    async run({ installation }, input) {
      const { name } = input.params;
      const { code } = input.body;
      const voided = await transaction(installation.db, async (tx) => {
        const moneyContext = { ...installation, db: tx };
        const codesVoided =
          code === undefined
            ? await voidBatch(moneyContext, name)
            : Number(await voidCode(moneyContext, name, code));
        if (codesVoided > 0) {
          const changes = [{ field: "withdrawn", from: null, to: String(codesVoided) }];
          const atMs = installation.clock.nowMs();
          await recordChange(tx, input, { atMs, action: "codes.void", target: `codes ${name}`, changes });
        }
        return codesVoided;
      });
      if (voided === 0)
        throw new ApiError("conflict", "No code can be voided: the codes were already redeemed or voided.");
      return { voided };
    },
  }),
};

async function planNames(db: Db): Promise<Map<string, string>> {
  return new Map((await listPlans(db)).map(({ id, name }) => [id, name]));
}

/** The actor is `admin:user_…` in the console and `cli:…` on the command line. */
function userIdIn(actor: string): string {
  return actor.replace(/^admin:/, "");
}

function valueObject(value: CodeValue, plans: ReadonlyMap<string, string>) {
  return value.kind === "money"
    ? { amount: usdText(value.amountNano), plan: null, days: null }
    : { amount: null, plan: plans.get(value.planId) ?? value.planId, days: value.days };
}

function codeObject(
  { digest, hint, redeemedAtMs, redeemedBy, voidedAtMs }: ListedCode,
  isExpired: boolean,
  emails: ReadonlyMap<string, string>,
): z.input<typeof codeResponse> {
  const status =
    redeemedAtMs !== null ? "redeemed" : voidedAtMs !== null ? "voided" : isExpired ? "expired" : "open";
  return {
    id: digest,
    hint,
    status,
    redeemed_at: redeemedAtMs,
    redeemed_by: redeemedBy === null ? null : (emails.get(redeemedBy) ?? redeemedBy),
  };
}
