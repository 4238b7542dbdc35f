/** English texts: the page of service accounts. */

import { plural } from "../plural.ts";

export const adminServiceAccounts = {
  title: "Service accounts",
  about: "Programs that call the console API under their own name, such as a payment system or CI.",
  create: "Create service account",
  name: "Name",
  nameHint: "Shown in the audit log, for example billing or ci.",
  scopes: "Scopes",
  scopeHints: {
    "wallet.read": "Read wallets and ledgers of all users.",
    "wallet.top_up": "Top up wallets, within the bounds below.",
    "config.apply":
      "Preview and apply a file that changes models, accounts, request policies, groups and plans.",
    "keys.write": "With config.apply: the file may also change API keys.",
    scim: "Push people and groups of the company's directory by SCIM. Opens nothing else.",
  },
  usdPerCall: "Top-up per call, at most (USD)",
  usdPerDay: "Top-ups per day (UTC), at most (USD)",
  today: "Topped up today",
  token: "Token",
  noToken: "No token",
  used: "Last used",
  expires: "Expires",
  expiresHint: "At the end of this day, in UTC.",
  expired: "Expired",
  tools: "Actions",
  newToken: (name: string) => `Create a token of ${name}`,
  editing: (name: string) => `Edit ${name}`,
  deleteOne: (name: string) => `Delete ${name}`,
  none: {
    title: "No service accounts yet",
    text: "A service account lets a program top up wallets within bounds, or apply the configuration from CI, without acting as a person.",
  },
  deleting: {
    title: (name: string) => `Delete the service account ${name}?`,
    text: (tokens: number) =>
      tokens === 0
        ? "It has no token, so no program stops working. Its entries in the audit log and in ledgers are kept."
        : plural(
            tokens,
            "Its token stops working immediately. Its entries in the audit log and in ledgers are kept.",
            "Its # tokens stop working immediately. Its entries in the audit log and in ledgers are kept.",
          ),
  },
  newTokenDialog: {
    title: (name: string) => `Create a token of ${name}`,
    text: "Earlier tokens of this service account stop working after the overlap.",
    overlap: "Earlier tokens work",
    overlaps: {
      none: "not any more",
      hour: "for another hour",
      day: "for another day",
      week: "for another 7 days",
    },
    submit: "Create token",
    made: "Token created",
    once: "The token is shown only once. Store it in the secret store of the program.",
    secret: "Token",
    done: "Done",
  },
};
