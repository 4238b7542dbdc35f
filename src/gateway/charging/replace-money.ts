/** Replaces the hold of a request that continues at another step: its price and payer are those of the step. */

import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { BillingUnavailable } from "../../billing/engine/direct-billing.ts";
import { storeUnavailable } from "../../errors.ts";
import { type ChargeableRequest, type HoldServices, holdMoney, type RequestCharge } from "./charge.ts";

interface ReplaceServices extends HoldServices {
  readonly billingEngine: Pick<BillingEngine, "hold" | "replaceHold" | "releaseHold">;
}

/** Returns null if the step is unpaid. If it rejects, the old hold stays, and the step must not be sent. */
export async function replaceMoney(
  services: ReplaceServices,
  chargeable: ChargeableRequest,
  conversationTokens: number | null,
): Promise<RequestCharge | null> {
  const { billingEngine } = services;
  const replacing: HoldServices = {
    estimates: services.estimates,
    inputCounter: services.inputCounter,
    billingEngine: { hold: (request) => billingEngine.replaceHold(request) },
  };
  const charge = await holdMoney(replacing, chargeable, conversationTokens);
  if (charge !== null) return charge;
  try {
    await billingEngine.releaseHold(chargeable.call.requestId);
  } catch (cause) {
    throw cause instanceof BillingUnavailable ? storeUnavailable() : cause;
  }
  return null;
}
