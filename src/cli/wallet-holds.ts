/** `model-gateway wallet holds` and what follows: holds of ended processes that could not be settled. */

import { instantText } from "../base/time.ts";
import { chargeSetAside, releaseSetAside } from "../billing/operations/resolve-hold.ts";
import { usdText } from "../money/nano.ts";
import { loggedEntryFields } from "../store/checks/entries-in-audit-log.ts";
import { listSetAsideHolds, type SetAsideHold } from "../store/money/set-aside-holds.ts";
import { type CommandDefinition, DATA_OPTION, JSON_OPTION, type Option } from "./command.ts";
import { shortInstant } from "./instants.ts";
import { cliActor, formatUsd, usdFrom } from "./money-input.ts";
import { runLogged } from "./operator.ts";
import { printJson, printList } from "./output.ts";
import { withInstallation } from "./store-access.ts";
import { parseReason, report } from "./wallet.ts";

const SHOWN_MAX = 1_000;
const REASON: Option = {
  value: "TEXT",
  about: "the reason, one line, recorded in the audit log",
  required: true,
};

export const listHoldsCommand: CommandDefinition = {
  changes: "nothing",
  about: `A hold of an ended process that could not be settled in three attempts is set aside, and its money stays held.
Resolve each with "wallet charge-hold" or "wallet release-hold".`,
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db }) => {
      const holds = await listSetAsideHolds(db, SHOWN_MAX);
      printList(input, {
        json: holds.map(toJson),
        header: ["REQUEST", "SINCE (UTC)", "USER", "HELD", "REASON"],
        rows: holds.map(toRow),
        empty: "No hold was set aside.",
      });
    }),
};

export const chargeHold: CommandDefinition = {
  changes: "money",
  about: "Deducts the amount from the user's balance and releases the rest of the hold.",
  options: {
    usd: { value: "AMOUNT", about: "the amount (all that is held)" },
    reason: REASON,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const requestId = input.require("REQUEST_ID");
      const amountNano = input.text("usd") === undefined ? "all" : usdFrom(input, "usd", { signed: false });
      const reason = `hold of ${requestId}: ${parseReason(input)}`;
      const booked = await runLogged(
        installation,
        (context) => chargeSetAside(context, { requestId, amountNano, actor: cliActor(), reason }),
        ({ entry }) => ({
          action: "wallet.charge_hold",
          target: `user ${entry.userId}`,
          changes: loggedEntryFields(entry),
        }),
      );
      return report(input, booked, `${formatUsd(booked.entry.amountNano)} charged for ${requestId}.`);
    }),
};

export const releaseHold: CommandDefinition = {
  changes: "money",
  about: "The held amount is available to the user again.",
  options: { reason: REASON, json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const requestId = input.require("REQUEST_ID");
      const reason = parseReason(input);
      const { amountNano, userId } = await runLogged(
        installation,
        ({ db }) => releaseSetAside(db, requestId),
        (hold) => ({
          action: "wallet.release_hold",
          target: `user ${hold.userId}`,
          changes: [
            { field: "request", from: requestId, to: null },
            { field: "held", from: `$${usdText(hold.amountNano)}`, to: null },
            { field: "reason", from: null, to: reason },
          ],
        }),
      );
      const { print, paint } = input.terminal;
      if (input.flag("json"))
        printJson(input, { request_id: requestId, user_id: userId, released: usdText(amountNano) });
      else print(paint.green(`${formatUsd(amountNano)} of ${requestId} released.`));
    }),
};

function toRow({
  requestId,
  atMs,
  email,
  userId,
  amountNano,
  subscriptionId,
  reason,
}: SetAsideHold): string[] {
  const held =
    subscriptionId === null ? formatUsd(amountNano) : `${formatUsd(amountNano)} (${subscriptionId})`;
  return [requestId, shortInstant(atMs), email ?? userId, held, reason];
}

function toJson({ requestId, atMs, email, userId, amountNano, subscriptionId, reason }: SetAsideHold) {
  return {
    request_id: requestId,
    since: instantText(atMs),
    user: email,
    user_id: userId,
    subscription_id: subscriptionId,
    held: usdText(amountNano),
    reason,
  };
}
