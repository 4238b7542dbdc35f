/** `model-gateway wallet`: manual money movements. Every call is a ledger entry with its actor and reason. */

import { instantText } from "../base/time.ts";
import {
  adjust,
  type MoneyOrder,
  type MoneyResult,
  PROVIDER,
  PROVIDER_RULE,
  refund,
  topUp,
} from "../billing/operations/operations.ts";
import { type Nano, usdText } from "../money/nano.ts";
import { loggedEntryFields } from "../store/checks/entries-in-audit-log.ts";
import { snapshot } from "../store/engine/db.ts";
import { listUserEntries } from "../store/money/entries.ts";
import { type Transfer, userBook } from "../store/money/ledger.ts";
import { sumReservations } from "../store/money/wallet-reservations.ts";
import { computeDebt, readWallet, type Wallet } from "../store/money/wallets.ts";
import {
  type CommandDefinition,
  DATA_OPTION,
  type Input,
  JSON_OPTION,
  misuse,
  type Option,
} from "./command.ts";
import { shortInstant } from "./instants.ts";
import { alignDecimalPoints, cliActor, formatUsd, usdFrom, wholeNumberFrom } from "./money-input.ts";
import { type CommandChange, runLogged } from "./operator.ts";
import { printJson } from "./output.ts";
import { flushUser } from "./running-server.ts";
import { requireUser, withInstallation } from "./store-access.ts";
import { type Paint, table } from "./terminal.ts";

const USER: Option = { value: "EMAIL", about: "the user's e-mail address", required: true };
const REASON: Option = { value: "TEXT", about: "the reason, one line, recorded in the ledger" };
const IDEMPOTENCY: Option = {
  value: "KEY",
  about: "makes retries safe: a repeated command with the same key posts no second entry",
};
const PROVIDER_HINT = "For example: --provider invoice";
const ENTRIES_WITH_WALLET = 10;
const LEDGER_LIMIT = 50;
const LEDGER_LIMIT_MAX = 10_000;

export const showWallet: CommandDefinition = {
  changes: "nothing",
  options: { user: USER, json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db, settings }) => {
      const user = await requireUser(db, input.require("user"));
      await flushUser(settings, user.id);
      const { wallet, reservedNano } = await snapshot(db, async (tx) => ({
        wallet: await readWallet(tx, user.id),
        reservedNano: await sumReservations(tx, user.id),
      }));
      const entries = await listUserEntries(db, user.id, { limit: ENTRIES_WITH_WALLET });
      const { print, paint } = input.terminal;
      if (input.flag("json")) {
        const output = { user: user.email, ...walletToJson(wallet), reserved: usdText(reservedNano) };
        return printJson(input, { ...output, entries: entries.map(entryToJson) });
      }
      print(`${paint.bold(user.email)}\n\n${walletText(wallet, paint)}`);
      if (reservedNano > 0n) {
        const note = `${formatUsd(reservedNano)} of the held amount is reserved by a server for upcoming requests.`;
        print(paint.dim(note));
      }
      if (entries.length > 0) print(`\n${ledgerTable(entries, user.id, paint)}`);
    }),
};

export const topUpWallet: CommandDefinition = {
  changes: "money",
  options: {
    user: USER,
    usd: { value: "AMOUNT", about: "the amount, such as 10 or 2.50", required: true },
    provider: { value: "NAME", about: "the payment provider (manual)" },
    reason: REASON,
    "idempotency-key": IDEMPOTENCY,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const amountNano = usdFrom(input, "usd", { signed: false });
      const provider = input.text("provider") ?? "manual";
      if (!PROVIDER.test(provider)) misuse(`--provider ${PROVIDER_RULE}.`, PROVIDER_HINT);
      const { id: userId, email } = await requireUser(installation.db, input.require("user"));
      await flushUser(installation.settings, userId);
      const order = { userId, amountNano, provider, ...parseOrder(input, `paid (${provider})`) };
      const booked = await runLogged(
        installation,
        (txInstallation) => topUp(txInstallation, order),
        describeEntry("wallet.top_up", email),
      );
      return report(input, booked, `${formatUsd(amountNano)} added for ${email}.`);
    }),
};

export const adjustWallet: CommandDefinition = {
  changes: "money",
  about: "Amounts held for requests in flight cannot be deducted.",
  options: {
    user: USER,
    usd: { value: "AMOUNT", about: "the amount, such as 2.50, or -2.50 to deduct it", required: true },
    reason: { ...REASON, required: true },
    "idempotency-key": IDEMPOTENCY,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const amountNano = usdFrom(input, "usd", { signed: true });
      const { id: userId, email } = await requireUser(installation.db, input.require("user"));
      await flushUser(installation.settings, userId);
      const order = { userId, amountNano, ...parseOrder(input, null) };
      const booked = await runLogged(
        installation,
        (txInstallation) => adjust(txInstallation, order),
        describeEntry("wallet.adjust", email),
      );
      const done = amountNano > 0n ? "added to" : "deducted from";
      return report(input, booked, `${formatUsd(booked.entry.amountNano)} ${done} ${email}.`);
    }),
};

export const refundRequest: CommandDefinition = {
  changes: "money",
  about: `The refund goes to the balance or subscription that was charged, and cannot exceed the charge.`,
  options: {
    usd: { value: "AMOUNT", about: "the amount (the rest of the charge)" },
    reason: REASON,
    "idempotency-key": IDEMPOTENCY,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const amountNano = input.text("usd") === undefined ? "all" : usdFrom(input, "usd", { signed: false });
      const requestId = input.require("REQUEST_ID");
      await flushUser(installation.settings, null);
      const booked = await runLogged(
        installation,
        (txInstallation) =>
          refund(txInstallation, { requestId, amountNano, ...parseOrder(input, "manual refund") }),
        describeEntry("wallet.refund", null),
      );
      const { subscriptionId } = booked.entry;
      const to = subscriptionId === null ? "the user's balance" : `the subscription ${subscriptionId}`;
      return report(input, booked, `${formatUsd(booked.entry.amountNano)} refunded to ${to}.`);
    }),
};

/** A repeated order books nothing, so it is not logged. */
function describeEntry(action: string, email: string | null): (booked: MoneyResult) => CommandChange | null {
  return ({ entry, repeated }) => {
    if (repeated) return null;
    return { action, target: `user ${email ?? entry.userId}`, changes: loggedEntryFields(entry) };
  };
}

export const showLedger: CommandDefinition = {
  changes: "nothing",
  options: {
    user: USER,
    limit: { value: "COUNT", about: `number of entries (${LEDGER_LIMIT})` },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async ({ db, settings }) => {
      const limit = wholeNumberFrom(input, "limit", LEDGER_LIMIT, LEDGER_LIMIT_MAX);
      const user = await requireUser(db, input.require("user"));
      await flushUser(settings, user.id);
      const entries = await listUserEntries(db, user.id, { limit });
      const { print, printNote: remark, paint } = input.terminal;
      if (input.flag("json")) printJson(input, entries.map(entryToJson));
      else if (entries.length === 0) remark(`No ledger entries for ${user.email} yet.`);
      else print(ledgerTable(entries, user.id, paint));
    }),
};

/** `defaultReason` applies if no reason is given. */
function parseOrder(input: Input, defaultReason: string | null): MoneyOrder {
  const idempotencyKey = input.text("idempotency-key");
  const reason = parseReason(input) ?? defaultReason;
  return {
    actor: cliActor(),
    reason,
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  };
}

/** Null if none is given. */
export function parseReason(input: Input): string | null {
  const reason = input.text("reason") ?? null;
  if (reason !== null && /\p{Cc}/u.test(reason)) {
    misuse(
      "--reason must be one line of text, without control characters.",
      'For example: --reason "invoice 12"',
    );
  }
  return reason;
}

/** Prints what was done and the new state of the wallet. */
export function report(input: Input, { entry, wallet, repeated }: MoneyResult, sentence: string): void {
  const { print, paint } = input.terminal;
  if (input.flag("json")) {
    printJson(input, { entry: entryToJson(entry), repeated, wallet: walletToJson(wallet) });
    return;
  }
  if (repeated)
    print(
      `An entry with this idempotency key was already posted on ${shortInstant(entry.atMs)}. No new entry was posted.`,
    );
  else print(paint.green(sentence));
  print(`\n${walletText(wallet, paint)}\n${paint.dim(`entry      ${entry.id}`)}`);
}

function walletText(wallet: Wallet, paint: Paint): string {
  const { balanceNano, heldNano } = wallet;
  const debtNano = computeDebt(wallet);
  const rows: [string, Nano][] = [
    ["balance", balanceNano],
    ["held", heldNano],
    ["available", balanceNano - heldNano],
    ...(debtNano === 0n ? [] : [["debt", debtNano] satisfies [string, Nano]]),
  ];
  const amounts = alignDecimalPoints(rows.map(([, nano]) => formatUsd(nano)));
  return rows
    .map(([name], i) => {
      const shown = amounts[i] ?? "";
      const amount = name === "debt" ? paint.red(shown) : name === "available" ? paint.bold(shown) : shown;
      return `${paint.dim(name.padEnd(9))}  ${amount}`;
    })
    .join("\n");
}

function ledgerTable(entries: readonly Transfer[], userId: string, paint: Paint): string {
  const amounts = entries.map((entry) => signAmount(entry, userId));
  const texts = alignDecimalPoints(amounts.map((amount) => `${amount > 0n ? "+" : ""}${formatUsd(amount)}`));
  const rows = entries.map((entry, i) => {
    const text = texts[i] ?? "";
    return [
      shortInstant(entry.atMs),
      entry.kind,
      entry.subscriptionId !== null ? paint.dim(text) : (amounts[i] ?? 0n) > 0n ? paint.green(text) : text,
      entry.debit === userBook(userId) ? entry.credit : entry.debit,
      entry.actor,
      [entry.reason, entry.requestId].filter((why) => why !== null).join(", ") || "-",
    ];
  });
  const shown = table(["TIME (UTC)", "KIND", "AMOUNT", "CONTRA ACCOUNT", "BY", "REASON"], rows, paint);
  const note = "Charges and refunds of a subscription do not change the balance.";
  return entries.some(({ subscriptionId }) => subscriptionId !== null)
    ? `${shown}\n\n${paint.dim(note)}`
    : shown;
}

/** The amount from the user's view: payments from any of the user's books are negative. */
function signAmount({ debit, amountNano, subscriptionId }: Transfer, userId: string): Nano {
  const paid =
    debit === userBook(userId) || (subscriptionId !== null && debit.endsWith(`:${subscriptionId}`));
  return paid ? -amountNano : amountNano;
}

function walletToJson(wallet: Wallet) {
  const { balanceNano, heldNano } = wallet;
  return {
    balance: usdText(balanceNano),
    held: usdText(heldNano),
    available: usdText(balanceNano - heldNano),
    debt: usdText(computeDebt(wallet)),
  };
}

function entryToJson(entry: Transfer) {
  return {
    id: entry.id,
    at: instantText(entry.atMs),
    kind: entry.kind,
    debit: entry.debit,
    credit: entry.credit,
    usd: usdText(entry.amountNano),
    request_id: entry.requestId,
    subscription_id: entry.subscriptionId,
    actor: entry.actor,
    reason: entry.reason,
  };
}
