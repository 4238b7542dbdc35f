/** Money that administrators move, always with a reason: one entry of the ledger and one of the audit each. */

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
import { usd } from "../../config/schema/words.ts";
import { parseUsd, usdText } from "../../money/nano.ts";
import { appendChange } from "../../store/change-log/change-log.ts";
import { fieldsOfEntry } from "../../store/checks/entries-in-change-log.ts";
import { transaction } from "../../store/engine/db.ts";
import { findUser } from "../../store/identity/users.ts";
import { debtIn } from "../../store/money/wallets.ts";
import { auditOf } from "../changes/change-log-entry.ts";
import type { ConsoleContext } from "../context.ts";
import { orderKeyField, readOrderKey } from "../http/idempotency-key.ts";
import { type Actor, forAdmins, type RouteInput, TAKES_NOTHING } from "../http/route.ts";
import { flushUsage, flushUsageFor } from "../usage/flush-usage.ts";

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
  /** It stands in the ledger, where the user can read it. */
  reason: z
    .string()
    .trim()
    .min(1, { error: "must say why" })
    .max(500)
    .refine((value) => !/\p{C}/u.test(value), { error: "must be one line of plain text" }),
  idempotency_key: orderKeyField,
};

const bookedAnswer = z.object({
  entry_id: z.string(),
  /** USD, as it was booked. */
  amount: z.string(),
  balance: z.string(),
  held: z.string(),
  debt: z.string(),
  /** Nothing was booked now: this key was used before for the same. */
  repeated: z.boolean(),
});

const ofUser = { params: z.strictObject({ id: z.string().max(100) }) };

export const adminMoneyRoutes = {
  "admin.money.adjust": forAdmins({
    ...TAKES_NOTHING,
    ...ofUser,
    method: "POST",
    path: "/api/admin/users/:id/adjust",
    summary: "Adjust a user's balance, up or down",
    body: z.strictObject({ amount: signedUsd, ...order }),
    tokenScope: "none",
    takesIdempotencyKey: true,
    answer: bookedAnswer,
    async run(control, asked) {
      const { id: userId } = asked.params;
      await flushUsageFor(control, userId);
      return booked(control, asked, "wallet.adjust", (desk, terms) =>
        adjust(desk, { ...terms, userId, amountNano: asked.body.amount }),
      );
    },
  }),

  "admin.money.top_up": forAdmins({
    ...TAKES_NOTHING,
    ...ofUser,
    method: "POST",
    path: "/api/admin/users/:id/top-up",
    summary: "Top up a user's balance",
    body: z.strictObject({
      amount: signedUsd,
      provider: z.string().regex(PROVIDER, { error: PROVIDER_RULE }),
      ...order,
    }),
    tokenScope: "none",
    takesIdempotencyKey: true,
    answer: bookedAnswer,
    async run(control, asked) {
      const { id: userId } = asked.params;
      await flushUsageFor(control, userId);
      return booked(control, asked, "wallet.top_up", (desk, terms) => {
        const { amount: amountNano, provider } = asked.body;
        return topUp(desk, { ...terms, userId, amountNano, provider });
      });
    },
  }),

  "admin.money.refund": forAdmins({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/admin/requests/:id/refund",
    summary: "Refund the charge of a request, fully or partly, to its payer",
    params: z.strictObject({ id: z.string().max(100) }),
    body: z.strictObject({
      /** Left out: all that is left of it. */
      amount: signedUsd.optional(),
      ...order,
    }),
    tokenScope: "none",
    takesIdempotencyKey: true,
    answer: bookedAnswer,
    async run(control, asked) {
      await flushUsage(control);
      return booked(control, asked, "wallet.refund", (desk, terms) =>
        refund(desk, { ...terms, requestId: asked.params.id, amountNano: asked.body.amount ?? "all" }),
      );
    },
  }),
};

interface Terms {
  actor: string;
  reason: string;
  idempotencyKey?: string;
}

async function booked(
  control: ConsoleContext,
  asked: RouteInput<unknown, unknown, { reason: string; idempotency_key?: string | undefined }, Actor>,
  action: string,
  book: (desk: MoneyContext, terms: Terms) => Promise<MoneyResult>,
): Promise<z.input<typeof bookedAnswer>> {
  const { installation } = control;
  const { clock } = installation;
  const { reason, idempotency_key } = asked.body;
  const actor = `admin:${asked.actor.userId}`;
  const terms = { actor, reason, ...readOrderKey(asked.headers, idempotency_key) };
  const { entry, wallet, repeated } = await transaction(installation.db, async (tx) => {
    const done = await book({ ...installation, db: tx }, terms);
    if (done.repeated) return done;
    const user = done.entry.userId === null ? null : await findUser(tx, done.entry.userId);
    const changes = fieldsOfEntry(done.entry);
    const target = `user ${user?.email ?? done.entry.userId}`;
    await appendChange(tx, auditOf(asked, { atMs: clock.nowMs(), action, target, changes }));
    return done;
  });
  return {
    entry_id: entry.id,
    amount: usdText(entry.amountNano),
    balance: usdText(wallet.balanceNano),
    held: usdText(wallet.heldNano),
    debt: usdText(debtIn(wallet)),
    repeated,
  };
}
