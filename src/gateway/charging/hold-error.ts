/** The errors of a request whose cost cannot be held. */

import type { HoldResult } from "../../billing/engine/direct-billing.ts";
import { ApiError } from "../../errors.ts";
import { type Nano, usdText } from "../../money/nano.ts";
import type { UsagePayer } from "../../store/usage/usage-row.ts";

export type InsufficientHold = Extract<HoldResult, { kind: "short" }>;
type FailedHold = Exclude<HoldResult, { kind: "held" }>;

const NO_RETRY = { "x-should-retry": "false" };
const MONEY = { scope: "user", kind: "money" } as const;

export function buildHoldError(charge: UsagePayer, leastNano: Nano, holdResult: FailedHold): ApiError {
  switch (holdResult.kind) {
    case "in_debt":
      return debtError(holdResult.debtNano);
    case "blocked":
      return new ApiError(
        "insufficient_quota",
        `This request requires $${usdText(holdResult.neededNano)}, because its input cannot be counted in advance. Only $${usdText(holdResult.availableNano)} is available while your other requests are in flight. Wait until they end, or send fewer requests at once.`,
        { headers: NO_RETRY, limit: MONEY },
      );
    case "short":
      return insufficientFunds(charge, leastNano, holdResult);
  }
}

function debtError(debtNano: Nano): ApiError {
  const debt = `$${usdText(debtNano)}`;
  return new ApiError(
    "insufficient_quota",
    `Your balance is ${debt} in debt, because an earlier request cost more than its hold. Requests are rejected until the debt is paid. Top up at least ${debt}, or redeem a code.`,
    { headers: NO_RETRY, limit: MONEY },
  );
}

function insufficientFunds(
  charge: UsagePayer,
  leastNano: Nano,
  { availableNano, resetsAtMs }: InsufficientHold,
): ApiError {
  const needs = `This request requires at least $${usdText(leastNano)}`;
  if (charge === "balance") {
    return new ApiError(
      "insufficient_quota",
      `${needs}, but your available balance is $${usdText(availableNano)}. Top up the balance, or send a smaller request.`,
      { headers: NO_RETRY, limit: MONEY },
    );
  }
  if (resetsAtMs === null) {
    return new ApiError(
      "insufficient_quota",
      `${needs}, but no active subscription has that much quota left. Ask your administrator for a subscription.`,
      { headers: NO_RETRY, limit: MONEY },
    );
  }
  const when = new Date(Math.ceil(resetsAtMs / 1000) * 1000).toISOString().replace(".000Z", "Z");
  return new ApiError(
    "usage_limit_reached",
    `${needs}, but your subscription has $${usdText(availableNano)} left. The quota resets at ${when}.`,
    { headers: NO_RETRY, resetsAtMs, limit: MONEY },
  );
}

export function noPayerError(): ApiError {
  return new ApiError(
    "insufficient_quota",
    "This key has no user who can be charged. Ask your administrator for a key of your own.",
    { headers: NO_RETRY, limit: MONEY },
  );
}
