/** Money that administrators move, with a reason. Each is one ledger entry and one audit log entry. */

import { z } from "zod";
import {
  adjust,
  type MoneyContext,
  type MoneyResult,
  PROVIDER,
  PROVIDER_RULE,
  refund,
  topUp,
} from "../../billing/operations/operations.ts";
import { usd } from "../../config/schema/basic-values.ts";
import { parseUsd, usdText } from "../../money/nano.ts";
import { loggedEntryFields } from "../../store/checks/entries-in-audit-log.ts";
import { transaction } from "../../store/engine/db.ts";
import { findUser } from "../../store/identity/users.ts";
import { computeDebt } from "../../store/money/wallets.ts";
import { resolveNamedUser } from "../auth/owner.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import type { StoreContext } from "../context.ts";
import { orderKeyField, readOrderKey } from "../http/idempotency-key.ts";
import { type ApiCaller, forAdmins, forAdminsAndServices, type RouteInput } from "../http/route.ts";
import { flushUsage, flushUsageFor } from "../usage/flush-usage.ts";
import { topUpWithinBounds } from "./service-top-up.ts";

const signedUsd = z
  .string()
  .trim()
  .refine((value) => usd.safeParse(value.replace(/^[+-]/, "")).success, {
    error: 'must be an amount in USD like "5.00" or "-5.00"',
  })
  .transform((value) =>
    value.startsWith("-") ? -parseUsd(value.slice(1)) : parseUsd(value.replace("+", "")),
  );

const order = {
  /** The user can read it in the ledger. */
  reason: z
    .string()
    .trim()
    .min(1, { error: "must not be empty" })
    .max(500)
    .refine((value) => !/\p{C}/u.test(value), { error: "must be one line of plain text" }),
  idempotency_key: orderKeyField,
};

const postedResponse = z.object({
  entry_id: z.string(),
  /** The posted amount in USD. */
  amount: z.string(),
  balance: z.string(),
  held: z.string(),
  debt: z.string(),
  /** Nothing was posted now: the same order was sent before with this idempotency key. */
  repeated: z.boolean(),
});

export const adminMoneyRoutes = {
  "admin.money.adjust": forAdmins({
    params: z.strictObject({ id: z.string().max(100) }),
    method: "POST",
    path: "/api/admin/users/:id/adjust",
    summary: "Adjust a user's balance, up or down",
    body: z.strictObject({ amount: signedUsd, ...order }),
    tokenScope: "none",
    takesIdempotencyKey: true,
    response: postedResponse,
    async run(context, input) {
      const { id: userId } = input.params;
      await flushUsageFor(context, userId);
      return postAndLog(context, input, "wallet.adjust", (moneyContext, terms) =>
        adjust(moneyContext, { ...terms, userId, amountNano: input.body.amount }),
      );
    },
  }),

  "admin.money.top_up": forAdminsAndServices({
    /** Service accounts may send the user's address instead of the id. */
    params: z.strictObject({ id: z.string().max(254) }),
    method: "POST",
    path: "/api/admin/users/:id/top-up",
    summary: "Top up a user's balance",
    body: z.strictObject({
      amount: signedUsd,
      provider: z.string().regex(PROVIDER, { error: PROVIDER_RULE }),
      ...order,
    }),
    tokenScope: "none",
    serviceScope: "wallet.top_up",
    takesIdempotencyKey: true,
    response: postedResponse,
    async run(context, input) {
      const { actor, params } = input;
      const userId = await resolveNamedUser(context, actor, params.id);
      await flushUsageFor(context, userId);
      return postAndLog(context, input, "wallet.top_up", async (moneyContext, terms) => {
        const { amount: amountNano, provider } = input.body;
        const order = { ...terms, userId, amountNano, provider };
        return actor.kind === "service"
          ? topUpWithinBounds(moneyContext, actor, order)
          : topUp(moneyContext, order);
      });
    },
  }),

  "admin.money.refund": forAdmins({
    method: "POST",
    path: "/api/admin/requests/:id/refund",
    summary: "Refund the charge of a request, fully or partly, to its payer",
    params: z.strictObject({ id: z.string().max(100) }),
    body: z.strictObject({
      /** If omitted, the whole remaining amount. */
      amount: signedUsd.optional(),
      ...order,
    }),
    tokenScope: "none",
    takesIdempotencyKey: true,
    response: postedResponse,
    async run(context, input) {
      await flushUsage(context);
      return postAndLog(context, input, "wallet.refund", (moneyContext, terms) =>
        refund(moneyContext, {
          ...terms,
          requestId: input.params.id,
          amountNano: input.body.amount ?? "all",
        }),
      );
    },
  }),
};

interface PostingTerms {
  actor: string;
  reason: string;
  idempotencyKey?: string;
}

async function postAndLog(
  context: StoreContext,
  input: RouteInput<unknown, unknown, { reason: string; idempotency_key?: string | undefined }, ApiCaller>,
  action: string,
  post: (moneyContext: MoneyContext, terms: PostingTerms) => Promise<MoneyResult>,
): Promise<z.input<typeof postedResponse>> {
  const { installation } = context;
  const { clock } = installation;
  const { reason, idempotency_key } = input.body;
  const { actor: caller } = input;
  const actor = caller.kind === "service" ? `service:${caller.account.id}` : `admin:${caller.userId}`;
  const terms = { actor, reason, ...readOrderKey(input.headers, idempotency_key) };
  const { entry, wallet, repeated } = await transaction(installation.db, async (tx) => {
    const posted = await post({ ...installation, db: tx }, terms);
    if (posted.repeated) return posted;
    const user = posted.entry.userId === null ? null : await findUser(tx, posted.entry.userId);
    const changes = loggedEntryFields(posted.entry);
    const target = `user ${user?.email ?? posted.entry.userId}`;
    await recordChange(tx, input, { atMs: clock.nowMs(), action, target, changes });
    return posted;
  });
  return {
    entry_id: entry.id,
    amount: usdText(entry.amountNano),
    balance: usdText(wallet.balanceNano),
    held: usdText(wallet.heldNano),
    debt: usdText(computeDebt(wallet)),
    repeated,
  };
}
