/** Eight users with a key each: six pay, from a balance or a subscription, and two use an unpaid group. */

import { prepareRouting, useRouting } from "./routing-setup.ts";
import { buildKey, type Setup } from "./setup.ts";
import { FAULTY, MESSAGES, MODELS } from "./traffic.ts";

const USERS = 8;
const OPENING_USD = 5_000n;
/** Sum of the balances that all users begin with. */
export const OPENING_NANO = OPENING_USD * 1_000_000_000n * BigInt(USERS);
const isUnpaid = (user: number) => user % 4 === 0;

export const USER_KEYS: readonly string[] = Array.from({ length: USERS }, (_, user) => buildKey(user));
export const UNPAID_KEYS: ReadonlySet<string> = new Set(USER_KEYS.filter((_, user) => isUnpaid(user)));

export type Payer = "balance" | "subscription";

/** With fallback and searches of the web. */
export function buildPaidSetup(payer: Payer): Setup {
  return useRouting(buildPlainSetup(payer));
}

/** The same models and accounts without them, as nodes of an earlier version need it. */
export function buildPlainSetup(payer: Payer): Setup {
  return prepareRouting(buildGroups(payer), payer);
}

function buildGroups(payer: Payer): Setup {
  const setup: Setup = {
    models: MODELS,
    faulty: FAULTY,
    messages: MESSAGES,
    users: USERS,
    groups: [
      { name: "default", billing: { charge: payer, multiplier: "1.3" }, on_disconnect: "cancel" },
      { name: "drain", billing: { charge: payer }, on_disconnect: "drain" },
      { name: "unpaid", billing: { charge: "none" } },
    ],
    findGroup: (user) => (isUnpaid(user) ? "unpaid" : user % 2 === 0 ? "default" : "drain"),
  };
  if (payer === "balance") return { ...setup, balance: `${OPENING_USD}.00` };
  const windows = [
    { per: "day", usd: "5000.00" },
    { per: "week", usd: "20000.00", counted: "rolling" },
  ];
  return { ...setup, plans: [{ name: "pro", windows }], subscriptions: [{ plan: "pro" }] };
}
