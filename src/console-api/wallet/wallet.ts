/** Routes for the wallet: balance, holds, ledger, redeem codes and subscriptions. */

import { z } from "zod";
import { type RedemptionResult, redeem } from "../../billing/operations/redeem.ts";
import { ApiError, paramError } from "../../errors.ts";
import { usdText } from "../../money/nano.ts";
import { CHARGES } from "../../records/group.ts";
import { COUNTED, PLAN_PERIODS, RENEWALS } from "../../records/plan.ts";
import { transaction } from "../../store/engine/db.ts";
import { findUser } from "../../store/identity/users.ts";
import { listUserEntries } from "../../store/money/entries.ts";
import { listUserHolds } from "../../store/money/holds.ts";
import { ENTRY_KINDS, type Transfer, userBook } from "../../store/money/ledger.ts";
import { listSubscriptionStatuses, type SubscriptionStatus } from "../../store/money/subscription-status.ts";
import { computeDebt, readWallet, type Wallet } from "../../store/money/wallets.ts";
import { countKeysByGroup } from "../../store/policy/key-list.ts";
import { ownerQuery, resolveOwner, resolveWalletOwner } from "../auth/owner.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import type { PolicyContext } from "../context.ts";
import { buildPage, cursorText, pageQuery, readCursor } from "../http/page.ts";
import { forUsers, forUsersAndServices } from "../http/route.ts";
import { filterUsableGroups } from "../keys/usable-groups.ts";
import { flushUsageFor } from "../usage/flush-usage.ts";

const balanceResponse = z.object({
  currency: z.literal("USD"),
  balance: z.string(),
  /** The sum of the holds of requests in flight. */
  held: z.string(),
  /** Negative if there is a debt. */
  available: z.string(),
  /** What requests cost above holds and balance. Until it is paid, paid requests are rejected. */
  debt: z.string(),
});

const subscriptionResponse = z.object({
  id: z.string(),
  plan: z.string(),
  /** The time zone in which its days, weeks and months begin. */
  time_zone: z.string(),
  standing: z.enum(["running", "upcoming", "ended", "cancelled"]),
  starts_at: z.number(),
  ends_at: z.number().nullable(),
  renews: z.enum(RENEWALS),
  windows: z.array(
    z.object({
      per: z.enum(PLAN_PERIODS),
      counted: z.enum(COUNTED),
      limit: z.string(),
      used: z.string(),
      held: z.string(),
      remaining: z.string(),
      resets_at: z.number(),
    }),
  ),
});

const walletResponse = z.object({
  ...balanceResponse.shape,
  /** In the order in which they pay. */
  subscriptions: z.array(subscriptionResponse),
  /** The payer of each group in which the caller has keys, or may create them. */
  payers: z.array(
    z.object({
      group: z.string(),
      charge: z.enum(CHARGES),
      /** Plans of running subscriptions that pay, in the order in which they pay. */
      plans: z.array(z.string()),
      /** Keys of the caller in the group. */
      keys: z.number(),
    }),
  ),
});

const entryResponse = z.object({
  id: z.string(),
  at: z.number(),
  kind: z.enum(ENTRY_KINDS),
  /** In USD, negative if the balance decreased. Charges to a subscription do not change the balance. */
  amount: z.string(),
  paid_by: z.enum(["balance", "subscription"]),
  /** Also null for a charge that several requests share. The reason contains their number. */
  request_id: z.string().nullable(),
  reason: z.string().nullable(),
});

const entryCursor = z.tuple([z.number(), z.string()]);

export const walletRoutes = {
  "wallet.get": forUsersAndServices({
    method: "GET",
    path: "/api/wallet",
    summary: "Get the balance, holds, subscriptions with their remaining quota, and the order of payers",
    query: z.strictObject(ownerQuery),
    response: walletResponse,
    serviceScope: "wallet.read",
    async run(context, { actor, query }) {
      const { db, clock } = context.installation;
      const userId = await resolveWalletOwner(context, actor, query.user);
      const nowMs = clock.nowMs();
      await flushUsageFor(context, userId);
      const subscriptions = await listSubscriptionStatuses(db, userId, nowMs);
      return {
        ...balanceObject(await readWallet(db, userId)),
        subscriptions: subscriptions.map(subscriptionObject),
        payers: await buildSubscriptions(context, userId, subscriptions),
      };
    },
  }),

  "wallet.ledger": forUsersAndServices({
    method: "GET",
    path: "/api/wallet/ledger",
    summary: "List ledger entries, newest first",
    query: z.strictObject({ ...pageQuery, ...ownerQuery }),
    response: buildPage(entryResponse),
    serviceScope: "wallet.read",
    async run(context, { actor, query }) {
      const userId = await resolveWalletOwner(context, actor, query.user);
      const cursor = readCursor(query.after, entryCursor);
      await flushUsageFor(context, userId);
      const found = await listUserEntries(context.installation.db, userId, {
        limit: query.limit + 1,
        ...(cursor === null ? {} : { before: { atMs: cursor[0], id: cursor[1] } }),
      });
      const entries = found.slice(0, query.limit);
      const last = entries.at(-1);
      return {
        data: entries.map((entry) => entryObject(entry, userId)),
        next: found.length > entries.length && last !== undefined ? cursorText([last.atMs, last.id]) : null,
      };
    },
  }),

  "wallet.holds": forUsers({
    method: "GET",
    path: "/api/wallet/holds",
    summary: "List the holds of requests in flight, oldest first",
    query: z.strictObject(ownerQuery),
    response: z.object({
      data: z.array(
        z.object({
          request_id: z.string(),
          at: z.number(),
          amount: z.string(),
          paid_by: z.enum(["balance", "subscription"]),
          model: z.string(),
          key_id: z.string(),
        }),
      ),
      next: z.null(),
    }),
    async run(context, { actor, query }) {
      const userId = resolveOwner(actor, query.user);
      await flushUsageFor(context, userId);
      const holds = await listUserHolds(context.installation.db, userId, HOLDS_LISTED_MAX);
      return {
        data: holds.map((hold) => ({
          request_id: hold.requestId,
          at: hold.atMs,
          amount: usdText(hold.amountNano),
          paid_by: hold.subscriptionId === null ? ("balance" as const) : ("subscription" as const),
          model: hold.publicModel,
          key_id: hold.keyId,
        })),
        next: null,
      };
    },
  }),

  "wallet.redeem": forUsers({
    method: "POST",
    path: "/api/wallet/redeem",
    summary: "Redeem a code: adds its amount to the balance, or grants its plan",
    body: z.strictObject({ code: z.string().trim().min(1).max(100) }),
    response: z.object({
      /** Exactly one of `amount` and `plan` is set. */
      amount: z.string().nullable(),
      plan: z.string().nullable(),
      ...balanceResponse.shape,
    }),
    async run(context, input) {
      const { installation, redeemThrottle: redeemTries } = context;
      const { userId, email } = input.actor;
      const wait = redeemTries.take(userId);
      if (wait !== null) throw tooManyTriesError(wait);
      const redeemed = await transaction(installation.db, async (tx) => {
        const order = { userId, code: input.body.code, actor: userId };
        const redemption = await redeem({ ...installation, db: tx }, order);
        const atMs = installation.clock.nowMs();
        const value = describeRedemption(redemption);
        const change = { field: value.plan === null ? "balance" : "plan", from: null, to: valueText(value) };
        await recordChange(tx, input, {
          atMs,
          action: "code.redeem",
          target: `user ${email}`,
          changes: [change],
        });
        return { ...value, ...balanceObject(redemption.wallet) };
      });
      redeemTries.release(userId);
      await context.gateway.policy.refresh();
      return redeemed;
    },
  }),
};

/** More requests of one user are never in flight, unless there is a serious fault. */
const HOLDS_LISTED_MAX = 200;

function tooManyTriesError(seconds: number): ApiError {
  const minutes = Math.ceil(seconds / 60);
  return new ApiError(
    "rate_limit_exceeded",
    `Too many invalid codes were entered. Try again in ${minutes} minute${minutes === 1 ? "" : "s"}.`,
    { headers: { "retry-after": String(seconds) }, param: "code" },
  );
}

interface RedeemedValue {
  amount: string | null;
  plan: string | null;
}

function describeRedemption(redeemed: RedemptionResult): RedeemedValue {
  return redeemed.kind === "plan"
    ? { amount: null, plan: redeemed.plan }
    : { amount: usdText(redeemed.entry.amountNano), plan: null };
}

const valueText = ({ amount, plan }: RedeemedValue): string => plan ?? `+$${amount}`;

function balanceObject(wallet: Wallet): z.input<typeof balanceResponse> {
  const { balanceNano, heldNano } = wallet;
  return {
    currency: "USD",
    balance: usdText(balanceNano),
    held: usdText(heldNano),
    available: usdText(balanceNano - heldNano),
    debt: usdText(computeDebt(wallet)),
  };
}

function subscriptionObject(subscription: SubscriptionStatus): z.input<typeof subscriptionResponse> {
  return {
    id: subscription.id,
    plan: subscription.planName,
    time_zone: subscription.timeZone,
    standing: subscription.state,
    starts_at: subscription.startsAtMs,
    ends_at: subscription.endsAtMs,
    renews: subscription.renews,
    windows: subscription.windows.map((window) => ({
      per: window.per,
      counted: window.counted,
      limit: usdText(window.limitNano),
      used: usdText(window.usedNano),
      held: usdText(window.heldNano),
      remaining: usdText(window.remainingNano),
      resets_at: window.endsAtMs,
    })),
  };
}

async function buildSubscriptions(
  { installation, gateway }: PolicyContext,
  userId: string,
  subscriptions: readonly SubscriptionStatus[],
): Promise<z.input<typeof walletResponse>["payers"]> {
  const { db, clock } = installation;
  const user = await findUser(db, userId);
  if (user === null) throw paramError("user", "not_found", "This user does not exist.");
  const snapshot = gateway.policy.snapshot();
  const keys = await countKeysByGroup(db, userId, clock.nowMs());
  const ownGroups = [...keys.keys()].flatMap((id) => snapshot.groups.get(id) ?? []);
  const running = subscriptions.filter(({ state }) => state === "running");
  return [...new Set([...ownGroups, ...filterUsableGroups(snapshot, user)])].map(({ id, name, billing }) => ({
    group: name,
    charge: billing.charge,
    plans:
      billing.charge !== "subscription"
        ? []
        : running
            .map(({ planName }) => planName)
            .filter((plan) => billing.plans === null || billing.plans.includes(plan)),
    keys: keys.get(id) ?? 0,
  }));
}

function entryObject(entry: Transfer, userId: string): z.input<typeof entryResponse> {
  const goesDown = entry.debit === userBook(userId) || entry.kind === "charge";
  return {
    id: entry.id,
    at: entry.atMs,
    kind: entry.kind,
    amount: usdText(goesDown ? -entry.amountNano : entry.amountNano),
    paid_by: entry.subscriptionId === null ? "balance" : "subscription",
    request_id: entry.requestId,
    reason: entry.reason,
  };
}
