/** `model-gateway codes`: creates, lists, redeems and voids redeem codes. */

import { instantText } from "../base/time.ts";
import {
  type BatchOrder,
  CODE_DAYS_MAX,
  CODES_PER_BATCH_MAX,
  createCodes,
  redeem,
  voidBatch,
} from "../billing/operations/redeem.ts";
import { isName, NAME_RULE } from "../config/schema/basic-values.ts";
import { usdText } from "../money/nano.ts";
import type { Db } from "../store/engine/db.ts";
import { listPlans } from "../store/money/plans.ts";
import { listRedeemBatches, type RedeemBatch } from "../store/money/redeem-codes.ts";
import { type CommandDefinition, DATA_OPTION, type Input, JSON_OPTION, misuse } from "./command.ts";
import { EXPIRES_OPTION, instantFrom, shortInstant } from "./instants.ts";
import { cliActor, formatUsd, usdFrom, wholeNumberFrom } from "./money-input.ts";
import { runLogged } from "./operator.ts";
import { printJson, printList } from "./output.ts";
import { flushUser } from "./running-server.ts";
import {
  chooseSecretTarget,
  SECRET_OPTIONS,
  SECRET_RULE,
  secretFileText,
  storeSecrets,
} from "./secret-output.ts";
import { requireUser, withInstallation } from "./store-access.ts";
import { count } from "./terminal.ts";
import { report } from "./wallet.ts";

export const createRedeemCodes: CommandDefinition = {
  changes: "money",
  about: SECRET_RULE,
  options: {
    count: { value: "COUNT", about: `number of codes, at most ${CODES_PER_BATCH_MAX} (1)` },
    usd: { value: "AMOUNT", about: "the value of each code; or a plan:" },
    plan: { value: "PLAN", about: "the plan that each code grants; requires --days" },
    days: { value: "DAYS", about: `how many days the plan lasts, at most ${CODE_DAYS_MAX}` },
    expires: EXPIRES_OPTION,
    batch: { value: "NAME", about: "the name of the batch (derived from the time)" },
    ...SECRET_OPTIONS,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const value = parseValue(input);
      const target = chooseSecretTarget(input, installation.settings, "codes");
      const howMany = wholeNumberFrom(input, "count", 1, CODES_PER_BATCH_MAX);
      const expiresAtMs = instantFrom(input, "expires");
      const name =
        input.text("batch") ?? `codes-${instantText(installation.clock.nowMs()).replace(/[^0-9]/g, "")}`;
      if (!isName(name)) misuse(`--batch must be ${NAME_RULE}.`, "For example: --batch spring");
      const order = { name, count: howMany, value, expiresAtMs, actor: cliActor() };
      const codes = await runLogged(
        installation,
        (txInstallation) => createCodes(txInstallation, order),
        () => ({
          action: "codes.create",
          target: `codes ${name}`,
          changes: [
            { field: "codes", from: null, to: String(howMany) },
            { field: "worth", from: null, to: formatValue(value) },
          ],
        }),
      );
      const { print, printNote: remark, paint } = input.terminal;
      const file = storeSecrets(
        target,
        codes.map((secret) => ({ name: null, secret })),
      );
      if (input.flag("json")) {
        const expires = instantText(expiresAtMs);
        const delivered = file === null ? { codes } : { codes_file: file };
        return printJson(input, { batch: name, ...valueToJson(value), expires, ...delivered });
      }
      const made = `${count(codes.length, "code")} of ${formatValue(value)}, batch ${paint.bold(name)}`;
      if (file === null) {
        // Only the codes go to standard output.
        remark(`${made}, shown only once:\n`);
        for (const code of codes) print(code);
      } else print(`${made}: ${secretFileText(file)}`);
      remark(paint.dim(`\nTo void the unused codes: ${input.command("codes void", name)}`));
    }),
};

export const listCodes: CommandDefinition = {
  changes: "nothing",
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db, clock }) => {
      const batches = await allBatches(db, clock.nowMs());
      const plans = new Map((await listPlans(db)).map(({ id, name }) => [id, name]));
      const { paint } = input.terminal;
      printList(input, {
        json: batches.map((batch) => ({
          batch: batch.name,
          ...valueToJson(nameValue(batch, plans)),
          created: instantText(batch.createdAtMs),
          created_by: batch.createdBy,
          expires: instantText(batch.expiresAtMs),
          codes: batch.codes,
          redeemed: batch.redeemed,
          voided: batch.voided,
          unused: batch.open,
        })),
        header: ["BATCH", "EACH", "CODES", "REDEEMED", "UNUSED", "VOIDED", "EXPIRES", "CREATED", "BY"],
        rows: batches.map((batch) => [
          batch.name,
          formatValue(nameValue(batch, plans)),
          String(batch.codes),
          String(batch.redeemed),
          batch.open > 0 ? paint.green(String(batch.open)) : "0",
          batch.voided > 0 ? paint.red(String(batch.voided)) : "0",
          instantText(batch.expiresAtMs)?.slice(0, 10) ?? "-",
          instantText(batch.createdAtMs).slice(0, 10),
          batch.createdBy,
        ]),
        empty: `No codes yet. To create codes: ${input.command("codes create", "--count", "10", "--usd", "5")}`,
      });
    }),
};

export const redeemCode: CommandDefinition = {
  changes: "money",
  options: {
    user: { value: "EMAIL", about: "the user who redeems the code", required: true },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const { id: userId, email } = await requireUser(installation.db, input.require("user"));
      await flushUser(installation.settings, userId);
      const order = { userId, code: input.require("CODE"), actor: cliActor() };
      const redeemed = await runLogged(
        installation,
        (txInstallation) => redeem(txInstallation, order),
        (done) => {
          const to = done.kind === "money" ? formatUsd(done.entry.amountNano) : done.plan;
          const changes = [{ field: done.kind === "money" ? "amount" : "plan", from: null, to }];
          return { action: "code.redeem", target: `user ${email}`, changes };
        },
      );
      if (redeemed.kind === "money") {
        const sentence = `${formatUsd(redeemed.entry.amountNano)} redeemed for ${email}.`;
        return report(input, { ...redeemed, repeated: false }, sentence);
      }
      const { plan, subscription } = redeemed;
      const ends = subscription.endsAtMs ?? subscription.startsAtMs;
      const { print, paint } = input.terminal;
      if (input.flag("json")) {
        const starts = instantText(subscription.startsAtMs);
        return printJson(input, { plan, subscription_id: subscription.id, starts, ends: instantText(ends) });
      }
      print(paint.green(`${email} has the plan ${plan} until ${shortInstant(ends)} UTC.`));
    }),
};

export const voidCodes: CommandDefinition = {
  changes: "money",
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const batch = input.require("BATCH");
      const voided = await runLogged(
        installation,
        (txInstallation) => voidBatch(txInstallation, batch),
        (many) => {
          const changes = [{ field: "withdrawn", from: null, to: String(many) }];
          return many === 0 ? null : { action: "codes.void", target: `codes ${batch}`, changes };
        },
      );
      if (input.flag("json")) input.terminal.print(JSON.stringify({ batch, voided }));
      else input.terminal.print(`${count(voided, "code")} of batch "${batch}" voided.`);
    }),
};

type OrderedValue = BatchOrder["value"];

function parseValue(input: Input): OrderedValue {
  const plan = input.text("plan");
  const hasAmount = input.text("usd") !== undefined;
  if (plan === undefined && !hasAmount)
    misuse("The value of the codes is missing: set --usd or --plan.", "For example: --usd 5");
  if (plan === undefined && input.text("days") !== undefined)
    misuse(
      "--days needs --plan.",
      "An amount does not expire. To limit how long the code can be redeemed, use --expires.",
    );
  if (plan === undefined) return { kind: "money", amountNano: usdFrom(input, "usd", { signed: false }) };
  if (hasAmount) misuse("--usd and --plan cannot be combined.", "A code is worth an amount or a plan.");
  if (input.text("days") === undefined) misuse("--plan needs --days.", "For example: --plan pro --days 30");
  return { kind: "plan", plan, days: wholeNumberFrom(input, "days", 30, CODE_DAYS_MAX) };
}

function formatValue(value: OrderedValue): string {
  return value.kind === "money" ? formatUsd(value.amountNano) : `${value.plan}, ${count(value.days, "day")}`;
}

function valueToJson(value: OrderedValue) {
  return value.kind === "money" ? { usd: usdText(value.amountNano) } : { plan: value.plan, days: value.days };
}

function nameValue({ value }: RedeemBatch, plans: ReadonlyMap<string, string>): OrderedValue {
  if (value.kind === "money") return value;
  return { kind: "plan", plan: plans.get(value.planId) ?? value.planId, days: value.days };
}

async function allBatches(db: Db, nowMs: number): Promise<RedeemBatch[]> {
  const all: RedeemBatch[] = [];
  let page: Awaited<ReturnType<typeof listRedeemBatches>> | null = null;
  do {
    page = await listRedeemBatches(db, nowMs, { after: page?.next ?? null, limit: 200 });
    all.push(...page.batches);
  } while (page.next !== null);
  return all;
}
