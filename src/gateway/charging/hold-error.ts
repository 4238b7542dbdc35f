/** The errors of a request whose cost cannot be held. */

import type { HoldResult } from "../../billing/engine/direct-billing.ts";
import { ApiError, type ErrorDetail } from "../../errors.ts";
import { type Nano, usdText } from "../../money/nano.ts";
import type { UsagePayer } from "../../store/usage/usage-row.ts";

export type InsufficientHold = Extract<HoldResult, { kind: "short" }>;
type FailedHold = Exclude<HoldResult, { kind: "held" }>;

type HoldRejectionReason =
  | "subscription_used"
  | "insufficient_funds"
  | "in_debt"
  /** Other requests of the payer are in flight. */
  | "blocked"
  | "no_payer";

/** The money of a request cannot be held. Fallback distinguishes the reasons; for clients it is an `ApiError`. */
export class HoldRejection extends ApiError {
  readonly reason: HoldRejectionReason;

  constructor(
    reason: HoldRejectionReason,
    code: "insufficient_quota" | "usage_limit_reached",
    message: string,
    detail: Pick<ErrorDetail, "resetsAtMs"> = {},
  ) {
    super(code, message, { ...detail, headers: NO_RETRY, limit: MONEY });
    this.reason = reason;
  }
}

const NO_RETRY = { "x-should-retry": "false" };
const MONEY = { scope: "user", kind: "money" } as const;

export function buildHoldError(charge: UsagePayer, leastNano: Nano, holdResult: FailedHold): ApiError {
  switch (holdResult.kind) {
    case "in_debt":
      return debtError(holdResult.debtNano);
    case "blocked":
      return new HoldRejection(
        "blocked",
        "insufficient_quota",
        `This request requires $${usdText(holdResult.neededNano)}, because its input cannot be counted in advance. Only $${usdText(holdResult.availableNano)} is available while your other requests are in flight. Wait until they end, or send fewer requests at once.`,
      );
    case "short":
      return insufficientFunds(charge, leastNano, holdResult);
  }
}

function debtError(debtNano: Nano): ApiError {
  const debt = `$${usdText(debtNano)}`;
  return new HoldRejection(
    "in_debt",
    "insufficient_quota",
    `Your balance is ${debt} in debt, because an earlier request cost more than its hold. Requests are rejected until the debt is paid. Top up at least ${debt}, or redeem a code.`,
  );
}

function insufficientFunds(
  charge: UsagePayer,
  leastNano: Nano,
  { availableNano, resetsAtMs }: InsufficientHold,
): ApiError {
  const needs = `This request requires at least $${usdText(leastNano)}`;
  if (charge === "balance") {
    return new HoldRejection(
      "insufficient_funds",
      "insufficient_quota",
      `${needs}, but your available balance is $${usdText(availableNano)}. Top up the balance, or send a smaller request.`,
    );
  }
  if (resetsAtMs === null) {
    return new HoldRejection(
      "subscription_used",
      "insufficient_quota",
      `${needs}, but no active subscription has that much quota left. Ask your administrator for a subscription.`,
    );
  }
  const when = new Date(Math.ceil(resetsAtMs / 1000) * 1000).toISOString().replace(".000Z", "Z");
  return new HoldRejection(
    "subscription_used",
    "usage_limit_reached",
    `${needs}, but your subscription has $${usdText(availableNano)} left. The quota resets at ${when}.`,
    { resetsAtMs },
  );
}

export function noPayerError(): ApiError {
  return new HoldRejection(
    "no_payer",
    "insufficient_quota",
    "This key has no user who can be charged. Ask your administrator for a key of your own.",
  );
}
