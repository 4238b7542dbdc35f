/** English texts: the dashboard. */

import { plural } from "../plural.ts";

export const adminDashboard = {
  title: "Dashboard",
  about: "Live traffic and recent history.",
  node: (name: string) =>
    `Live figures cover this process only (${name}). Charts and rankings cover all processes, with a delay of up to one minute.`,
  live: {
    title: "Live",
    connected: "Connected",
    lost: "Connection lost. Reconnecting",
    requests: "Requests per second",
    tokens: "Tokens per second",
    errors: "Errors per second",
    inFlight: "In flight",
    waiting: "Queued",
    waitingForSlot: "Queued for concurrency",
    spent: "Spend today",
    spentNote: "at list price, since midnight UTC",
    lastMinute: (name: string) => `${name}, last minute`,
  },
  accounts: {
    title: "Accounts",
    about: "Accounts that need attention are listed first.",
    name: "Account",
    condition: "Health",
    inFlight: "In flight",
    latency: "First byte",
    until: (duration: string) => `for ${duration}`,
    models: (count: number) => plural(count, "1 model cooling down", "# models cooling down"),
    none: "No accounts yet",
    noneYet:
      "An account is a credential at an upstream. Requests can be served only after you add an account.",
    add: "Add account",
  },
  alerts: {
    open: (count: number) => plural(count, "1 open alert", "# open alerts"),
    see: "View all alerts",
  },
  charts: {
    title: "History",
    range: "Time range",
    ranges: { day: "24 hours", week: "7 days", month: "30 days" },
    requests: "Requests",
    responded: "Succeeded",
    failed: "Failed",
    refused: "Rejected",
    money: "Cost",
    cost: "List price",
    charged: "Charged",
    upstream: "Upstream cost",
    tokens: "Tokens",
    input: "Input",
    output: "Output",
  },
  top: {
    title: "Top spenders",
    since: (day: string) => `Full days since ${day}, UTC.`,
    models: "Models",
    keys: "Keys",
    users: "Users",
    groups: "Groups",
    gone: "deleted",
    requests: (count: number, shown: string) => plural(count, "1 request", `${shown} requests`),
    none: "No usage yet.",
  },
};
