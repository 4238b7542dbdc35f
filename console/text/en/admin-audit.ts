/** English texts: the audit log. */

import { plural } from "../plural.ts";

export const adminAudit = {
  title: "Audit log",
  about:
    "Every change, with its author, the values before and after, and a hash chain. Entries are append-only.",
  search: "Search by actor, action or target",
  kind: "Change type",
  kinds: {
    all: "All",
    "account.": "Accounts",
    "alerts.": "Alerts",
    "capture.": "Captures",
    "codes.": "Redeem codes",
    "group.": "Groups",
    "key.": "Keys",
    "link.": "Links",
    "model.": "Models",
    "plan.": "Plans",
    "registration.": "Registration",
    "session.": "Sign-in",
    "smtp.": "Mail",
    "subscription.": "Subscriptions",
    "user.": "Users",
    "wallet.": "Billing",
  },
  export: "Export",
  at: "Time",
  actor: "Actor",
  actors: {
    user: "console",
    service: "service account",
    cli: "command line",
    file: "configuration file",
    system: "gateway",
  },
  action: "Action",
  target: "Target",
  address: "IP address",
  changes: (count: number) => plural(count, "1 field", "# fields"),
  noChanges: "no fields",
  changed: "Changes",
  field: "Field",
  before: "Before",
  after: "After",
  nothing: "none",
  only: "Filter by this value",
  of: (what: string) => `Filter: ${what}`,
  chain: {
    checking: "Verifying the hash chain",
    again: "Verify again",
    whole: (count: string) => `Verified: ${count} entries`,
    broken: (count: number) =>
      plural(count, "The hash chain is broken in 1 place", "The hash chain is broken in # places"),
    brokenAt: (seq: number, kind: "changed" | "missing" | "cut") =>
      ({
        changed: `Entry ${seq} was changed after it was written.`,
        missing: `Entries before ${seq} are missing.`,
        cut: `Entries after ${seq} are missing.`,
      })[kind],
    head: "Hash of the last entry",
  },
  none: { title: "No entries found", text: "Changes appear here as soon as they are made." },
};
