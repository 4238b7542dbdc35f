/** Whether the wallet can pay for requests of a group. */

import type { ResponseBody } from "../../api.ts";

type Offer = ResponseBody<"groups.list">["data"][number];
export type Wallet = Pick<ResponseBody<"wallet.get">, "available" | "payers">;

export function isPaid(
  { name, charge }: { name: string; charge: Wallet["payers"][number]["charge"] },
  { available, payers }: Wallet,
): boolean {
  switch (charge) {
    case "none":
      return true;
    case "balance":
      return Number(available) > 0;
    case "subscription":
      return payers.some(({ group, plans }) => group === name && plans.length > 0);
  }
}

/** Groups whose models can be called at once are listed first. */
export function callableFirst(offers: readonly Offer[], wallet: Wallet): Offer[] {
  return offers.toSorted((a, b) => Number(isPaid(b, wallet)) - Number(isPaid(a, wallet)));
}
