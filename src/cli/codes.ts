import { CODES_PER_BATCH_MAX, createCodes, redeem, voidBatch } from "../billing/redeem.ts";
import { INSTANT_RULE, instantMs, isName, NAME_RULE } from "../config/schema.ts";
import { usdText } from "../money/nano.ts";
import { listRedeemBatches } from "../store/redeem-codes.ts";
import { type Command, DATA_OPTION, type Input, JSON_OPTION, misuse } from "./command.ts";
import { actorHere, dollars, instantText, needUser, usdFrom, wholeNumberFrom } from "./money-input.ts";
import { withInstallation } from "./store-access.ts";
import { count, table } from "./terminal.ts";
import { report } from "./wallet.ts";

export const createRedeemCodes: Command = {
  words: "codes create",
  summary: "Make redeem codes and show them, this once",
  options: {
    count: { value: "COUNT", about: `how many, up to ${CODES_PER_BATCH_MAX} (1)` },
    usd: { value: "AMOUNT", about: "what each is worth", required: true },
    expires: { value: "DATE", about: "2027-01-31 (to the end of that day, UTC) or 2027-01-31T12:00:00Z" },
    batch: { value: "NAME", about: "what to call them together (made from the time)" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (desk) => {
      const amountNano = usdFrom(input, "usd", { signed: false });
      const howMany = wholeNumberFrom(input, "count", 1, CODES_PER_BATCH_MAX);
      const expiresAtMs = expiryFrom(input);
      const name = input.text("batch") ?? `codes-${instantText(desk.clock.nowMs()).replace(/[^0-9]/g, "")}`;
      if (!isName(name)) misuse(`--batch must be ${NAME_RULE}.`, "For example: --batch spring");
      const order = { name, count: howMany, amountNano, expiresAtMs, actor: actorHere() };
      const codes = await createCodes(desk, order);
      const { print, remark, paint } = input.terminal;
      if (input.flag("json")) {
        const expires = expiresAtMs === null ? null : instantText(expiresAtMs);
        print(JSON.stringify({ batch: name, usd: usdText(amountNano), expires, codes }, null, 2));
        return 0;
      }
      // The codes alone on standard output: they are what one wants in a file.
      remark(
        `${count(codes.length, "code")} of ${dollars(amountNano)}, batch ${paint.bold(name)}, shown this once:\n`,
      );
      for (const code of codes) print(code);
      remark(paint.dim(`\nTo withdraw those not redeemed: model-gateway codes void ${name}`));
      return 0;
    }),
};

export const listCodes: Command = {
  words: "codes list",
  summary: "List the batches of redeem codes",
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db, clock }) => {
      const batches = await listRedeemBatches(db, clock.nowMs());
      const { print, remark, paint } = input.terminal;
      if (input.flag("json")) {
        const written = batches.map((batch) => ({
          batch: batch.name,
          usd: usdText(batch.amountNano),
          created: instantText(batch.createdAtMs),
          created_by: batch.createdBy,
          expires: batch.expiresAtMs === null ? null : instantText(batch.expiresAtMs),
          codes: batch.codes,
          redeemed: batch.redeemed,
          voided: batch.voided,
          unused: batch.open,
        }));
        print(JSON.stringify(written, null, 2));
        return 0;
      }
      if (batches.length === 0) {
        remark("No codes yet. Make some: model-gateway codes create --count 10 --usd 5");
        return 0;
      }
      const rows = batches.map((batch) => [
        batch.name,
        dollars(batch.amountNano),
        String(batch.codes),
        String(batch.redeemed),
        batch.open > 0 ? paint.green(String(batch.open)) : "0",
        batch.voided > 0 ? paint.red(String(batch.voided)) : "0",
        batch.expiresAtMs === null ? "-" : instantText(batch.expiresAtMs).slice(0, 10),
        instantText(batch.createdAtMs).slice(0, 10),
        batch.createdBy,
      ]);
      const header = ["BATCH", "EACH", "CODES", "REDEEMED", "UNUSED", "VOIDED", "EXPIRES", "CREATED", "BY"];
      print(table(header, rows, paint));
      return 0;
    }),
};

export const redeemCode: Command = {
  words: "codes redeem",
  summary: "Redeem a code for a user",
  positionals: ["CODE"],
  options: {
    user: { value: "EMAIL", about: "whose balance it goes to", required: true },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (desk) => {
      const { id: userId, email } = await needUser(desk.db, input.need("user"));
      const booked = await redeem(desk, { userId, code: input.need("CODE"), actor: actorHere() });
      return report(input, booked, `${dollars(booked.entry.amountNano)} redeemed for ${email}.`);
    }),
};

export const voidCodes: Command = {
  words: "codes void",
  summary: "Withdraw the codes of a batch that nobody has redeemed",
  positionals: ["BATCH"],
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async (desk) => {
      const batch = input.need("BATCH");
      const voided = await voidBatch(desk, batch);
      if (input.flag("json")) input.terminal.print(JSON.stringify({ batch, voided }));
      else input.terminal.print(`${count(voided, "code")} of batch "${batch}" withdrawn.`);
      return 0;
    }),
};

function expiryFrom(input: Input): number | null {
  const expires = input.text("expires");
  if (expires === undefined) return null;
  return instantMs(expires) ?? misuse(`--expires must be ${INSTANT_RULE}.`, "All times are UTC.");
}
