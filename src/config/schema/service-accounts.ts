/** Schema of service accounts. */

import { z } from "zod";
import { parseUsd } from "../../money/nano.ts";
import { SERVICE_SCOPES } from "../../records/service-account.ts";
import { describeFields, instant, name, windowUsd } from "./basic-values.ts";

const bounds = describeFields({
  usd_per_call: { is: windowUsd, means: "the largest top-up of one call, in USD" },
  usd_per_day: { is: windowUsd, means: "the sum of the top-ups of a day in UTC, over all nodes, in USD" },
}).refine(isOrdered, { error: "at least usd_per_call", path: ["usd_per_day"] });

/** Also true if an amount is invalid, which its own rule reports. */
function isOrdered(one: { usd_per_call: string; usd_per_day: string }): boolean {
  const isValid =
    windowUsd.safeParse(one.usd_per_call).success && windowUsd.safeParse(one.usd_per_day).success;
  return !isValid || parseUsd(one.usd_per_call) <= parseUsd(one.usd_per_day);
}

export const serviceAccount = describeFields({
  name: { is: name, means: "the name of the service account, which the audit log shows", also: "unique" },
  scopes: {
    is: z.array(z.enum(SERVICE_SCOPES)).min(1, { error: "a list of at least one scope" }),
    means:
      "what its tokens may do. `wallet.read`: read wallets and ledgers. `wallet.top_up`: top up wallets within `bounds`. `config.apply`: preview and apply a file that changes models, accounts, request policies, groups and plans. `keys.write`: such a file may also change keys. `scim`: push people and groups of the directory by [SCIM](directory.md)",
  },
  bounds: {
    is: bounds.optional(),
    means: "what it may top up",
    leftOut: "none",
    also: "required with `wallet.top_up`, and allowed only with it",
  },
  expires: {
    is: instant.optional(),
    means: "when its tokens expire; a date means the end of that day in UTC",
    leftOut: "never",
  },
});
