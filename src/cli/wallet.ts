/** `model-gateway wallet`: manual money movements. Every call is a ledger entry with its actor and reason. */

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
import { loggedEntryFields } from "../store/checks/entries-in-change-log.ts";
import { snapshot } from "../store/engine/db.ts";
import { listEntriesOfUser } from "../store/money/entries.ts";
import { type Transfer, userBook } from "../store/money/ledger.ts";
import { sumReservations } from "../store/money/wallet-reservations.ts";
import { debtIn, readWallet, type Wallet } from "../store/money/wallets.ts";
import { type Command, DATA_OPTION, type Input, JSON_OPTION, misuse, type Option } from "./command.ts";
import { instantText, shortInstant } from "./instants.ts";
import { actorHere, dollars, pointsAligned, usdFrom, wholeNumberFrom } from "./money-input.ts";
import { audited, type Deed } from "./operator.ts";
import { flushUser } from "./running-server.ts";
import { needUser, withInstallation } from "./store-access.ts";
import { type Paint, table } from "./terminal.ts";

const USER: Option = { value: "EMAIL", about: "whose wallet", required: true };
const REASON: Option = { value: "TEXT", about: "why, for the ledger, in a line" };
const IDEMPOTENCY: Option = {
  value: "KEY",
  about: "the same key again books nothing: safe to repeat after a failure",
};
const PROVIDER_HINT = "For example: --provider invoice";
const SHOWN_WITH_WALLET = 10;
const LEDGER_LIMIT = 50;
const LEDGER_LIMIT_MAX = 10_000;

export const showWallet: Command = {
  words: "wallet show",
  summary: "Show a user's balance and what was booked last",
  options: { user: USER, json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db, settings }) => {
      const user = await needUser(db, input.need("user"));
      await flushUser(settings, user.id);
      const { wallet, leasedNano } = await snapshot(db, async (tx) => ({
        wallet: await readWallet(tx, user.id),
        leasedNano: await sumReservations(tx, user.id),
      }));
      const entries = await listEntriesOfUser(db, user.id, { limit: SHOWN_WITH_WALLET });
      const { print, paint } = input.terminal;
      if (input.flag("json")) {
        const output = { user: user.email, ...writtenWallet(wallet), set_aside: usdText(leasedNano) };
        print(JSON.stringify({ ...output, entries: entries.map(writtenEntry) }, null, 2));
        return 0;
      }
      print(`${paint.bold(user.email)}\n\n${walletText(wallet, paint)}`);
      if (leasedNano > 0n) {
        const says = `${dollars(leasedNano)} of what is held is set aside by a server for requests to come.`;
        print(paint.dim(says));
      }
      if (entries.length > 0) print(`\n${ledgerTable(entries, user.id, paint)}`);
      return 0;
    }),
};

export const topUpWallet: Command = {
  words: "wallet top-up",
  summary: "Add money that a user has paid",
  options: {
    user: USER,
    usd: { value: "AMOUNT", about: "such as 10 or 2.50", required: true },
    provider: { value: "NAME", about: "through whom it was paid (manual)" },
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
      const { id: userId, email } = await needUser(installation.db, input.need("user"));
      await flushUser(installation.settings, userId);
      const order = { userId, amountNano, provider, ...parseOrder(input, `paid (${provider})`) };
      const booked = await audited(
        installation,
        (txInstallation) => topUp(txInstallation, order),
        describeEntry("wallet.top_up", email),
      );
      return report(input, booked, `${dollars(amountNano)} added for ${email}.`);
    }),
};

export const adjustWallet: Command = {
  words: "wallet adjust",
  summary: "Correct a balance, up or down",
  about: "What is held for requests under way cannot be taken.",
  options: {
    user: USER,
    usd: { value: "AMOUNT", about: "such as 2.50, or -2.50 to take it away", required: true },
    reason: { ...REASON, required: true },
    "idempotency-key": IDEMPOTENCY,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const amountNano = usdFrom(input, "usd", { signed: true });
      const { id: userId, email } = await needUser(installation.db, input.need("user"));
      await flushUser(installation.settings, userId);
      const order = { userId, amountNano, ...parseOrder(input, null) };
      const booked = await audited(
        installation,
        (txInstallation) => adjust(txInstallation, order),
        describeEntry("wallet.adjust", email),
      );
      const done = amountNano > 0n ? "given to" : "taken from";
      return report(input, booked, `${dollars(booked.entry.amountNano)} ${done} ${email}.`);
    }),
};

export const refundRequest: Command = {
  words: "wallet refund",
  summary: "Give back what a request was charged",
  about: `To the balance or to the subscription that paid it, and never more than it was charged.`,
  positionals: ["REQUEST_ID"],
  options: {
    usd: { value: "AMOUNT", about: "a part of it (all that is left)" },
    reason: REASON,
    "idempotency-key": IDEMPOTENCY,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const amountNano = input.text("usd") === undefined ? "all" : usdFrom(input, "usd", { signed: false });
      const requestId = input.need("REQUEST_ID");
      await flushUser(installation.settings, null);
      const booked = await audited(
        installation,
        (txInstallation) =>
          refund(txInstallation, { requestId, amountNano, ...parseOrder(input, "refunded by hand") }),
        describeEntry("wallet.refund", null),
      );
      const { subscriptionId } = booked.entry;
      const to = subscriptionId === null ? "the user's balance" : `the subscription ${subscriptionId}`;
      return report(input, booked, `${dollars(booked.entry.amountNano)} given back to ${to}.`);
    }),
};

/** A repeated order books nothing, so it is not logged. */
function describeEntry(action: string, email: string | null): (booked: MoneyResult) => Deed | null {
  return ({ entry, repeated }) => {
    if (repeated) return null;
    return { action, target: `user ${email ?? entry.userId}`, changes: loggedEntryFields(entry) };
  };
}

export const showLedger: Command = {
  words: "wallet ledger",
  summary: "List what was booked for a user, the latest first",
  options: {
    user: USER,
    limit: { value: "COUNT", about: `how many entries (${LEDGER_LIMIT})` },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async ({ db, settings }) => {
      const limit = wholeNumberFrom(input, "limit", LEDGER_LIMIT, LEDGER_LIMIT_MAX);
      const user = await needUser(db, input.need("user"));
      await flushUser(settings, user.id);
      const entries = await listEntriesOfUser(db, user.id, { limit });
      const { print, remark, paint } = input.terminal;
      if (input.flag("json")) print(JSON.stringify(entries.map(writtenEntry), null, 2));
      else if (entries.length === 0) remark(`Nothing was booked for ${user.email} yet.`);
      else print(ledgerTable(entries, user.id, paint));
      return 0;
    }),
};

/** `defaultReason` applies if no reason is given. */
function parseOrder(input: Input, defaultReason: string | null): MoneyOrder {
  const idempotencyKey = input.text("idempotency-key");
  const reason = input.text("reason") ?? defaultReason;
  if (reason !== null && /\p{Cc}/u.test(reason)) {
    misuse(
      "--reason must be one line of text, without control characters.",
      'For example: --reason "invoice 12"',
    );
  }
  return {
    actor: actorHere(),
    reason,
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  };
}

/** Prints what was done and the new state of the wallet. */
export function report(input: Input, { entry, wallet, repeated }: MoneyResult, sentence: string): number {
  const { print, paint } = input.terminal;
  if (input.flag("json")) {
    print(JSON.stringify({ entry: writtenEntry(entry), repeated, wallet: writtenWallet(wallet) }, null, 2));
    return 0;
  }
  if (repeated)
    print(`Booked before under this key, on ${shortInstant(entry.atMs)}. Nothing was booked now.`);
  else print(paint.green(sentence));
  print(`\n${walletText(wallet, paint)}\n${paint.dim(`entry      ${entry.id}`)}`);
  return 0;
}

function walletText(wallet: Wallet, paint: Paint): string {
  const { balanceNano, heldNano } = wallet;
  const debtNano = debtIn(wallet);
  const rows: [string, Nano][] = [
    ["balance", balanceNano],
    ["held", heldNano],
    ["available", balanceNano - heldNano],
    ...(debtNano === 0n ? [] : [["debt", debtNano] satisfies [string, Nano]]),
  ];
  const amounts = pointsAligned(rows.map(([, nano]) => dollars(nano)));
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
  const texts = pointsAligned(amounts.map((amount) => `${amount > 0n ? "+" : ""}${dollars(amount)}`));
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
  const shown = table(["TIME (UTC)", "KIND", "AMOUNT", "OTHER BOOK", "BY", "WHY"], rows, paint);
  const note = "What a subscription paid, or got back, does not move the balance.";
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

function writtenWallet(wallet: Wallet) {
  const { balanceNano, heldNano } = wallet;
  return {
    balance: usdText(balanceNano),
    held: usdText(heldNano),
    available: usdText(balanceNano - heldNano),
    debt: usdText(debtIn(wallet)),
  };
}

function writtenEntry(entry: Transfer) {
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
