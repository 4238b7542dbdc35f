/** Whether the wallet can pay for requests of a group. */

import type { ResponseBody } from "../../api.ts";

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
