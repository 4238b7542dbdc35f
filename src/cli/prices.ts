/** `model-gateway prices`: lists the prices of models with their sources, and updates the price list. */

import type { Installation } from "../config/installation/installation.ts";
import { limits } from "../config/limits/product-limits.ts";
import { listChanges, listedModelFields, parsePriceList } from "../config/parse/price-list-file.ts";
import type { Change } from "../config/state/step.ts";
import { BUNDLED_PRICES, findListed } from "../money/price-list.ts";
import { flatPrice } from "../money/prices.ts";
import { multiplierText } from "../money/tariff.ts";
import { computeOldestDate, listOldPrices, type OldListPrice } from "../policy/old-prices.ts";
import { openPricing, type ResolvedPrice } from "../policy/pricing.ts";
import { unpricedPublications } from "../policy/publication.ts";
import type { ModelRecord } from "../records/model.ts";
import type { PolicyRecords } from "../records/policy.ts";
import type { PriceList, PriceQuotation } from "../records/price.ts";
import { readPolicy } from "../store/policy/policy.ts";
import { readPriceList, writePriceList } from "../store/policy/price-list.ts";
import { readConfigFile } from "./apply.ts";
import { differenceText, printProblems } from "./apply-output.ts";
import { type CommandDefinition, DATA_OPTION, fail, JSON_OPTION } from "./command.ts";
import { runLogged } from "./operator.ts";
import { printJson } from "./output.ts";
import { PROGRAM } from "./program-name.ts";
import { withInstallation } from "./store-access.ts";
import { table } from "./terminal.ts";

interface PriceRow {
  model: string;
  /** The groups that use this price; empty for an entry of a list. */
  groups: string[];
  resolvedPrice: ResolvedPrice | null;
  /** The group's multiplier times the model's. */
  multiplier: string;
}

export const listPrices: CommandDefinition = {
  changes: "nothing",
  about: `Order of precedence: the group's price of a model, the model's price, the list of \`prices update\`, the bundled list of ${BUNDLED_PRICES.date}. Prices are USD per million tokens; image and images per image, request per request. A quoted price was not read on the vendor's page; its day is in brackets.
TIMES is the multiplier of the group.`,
  options: {
    model: { value: "MODEL", about: "only this model, public or in a list" },
    all: { about: "include models of the lists that are not configured" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async ({ db }) => {
      const { print, printNote: remark, paint } = input.terminal;
      const records = await readPolicy(db);
      const only = input.text("model");
      const own = records.models
        .filter(({ id }) => only === undefined || id === only)
        .toSorted((a, b) => (a.id < b.id ? -1 : 1))
        .flatMap((model) => buildRows(model, records));
      const inUse = new Set(own.map(({ model }) => model));
      const listed =
        only !== undefined
          ? inUse.has(only)
            ? []
            : [only]
          : input.flag("all")
            ? listedNames(records.priceList ?? null).filter((name) => !inUse.has(name))
            : [];
      const rows = [...own, ...listed.flatMap((name) => listedRow(name, records.priceList ?? null) ?? [])];
      if (only !== undefined && rows.length === 0) {
        fail(
          `No model and no price list entry is named "${only}".`,
          `See: ${input.command("prices list", "--all")}`,
        );
      }
      if (input.flag("json")) {
        const output = rows.map(({ model, groups, resolvedPrice, multiplier }) => ({
          model,
          groups,
          multiplier,
          source: resolvedPrice?.source ?? null,
          listed_as: resolvedPrice?.listed?.name ?? null,
          date: resolvedPrice?.listed?.date ?? null,
          quotation: findQuotation(resolvedPrice, records.priceList ?? null),
          price: resolvedPrice?.price ?? null,
        }));
        return printJson(input, output);
      }
      if (rows.length > 0) {
        const cells = rows.map(({ model, groups, resolvedPrice, multiplier }) => [
          model,
          groups.length === 0 ? "-" : groups.join(", "),
          multiplier,
          formatSource(model, resolvedPrice),
          resolvedPrice?.listed?.date ?? "-",
          // The last column, because it may be long.
          resolvedPrice === null
            ? paint.yellow("none")
            : priceText(resolvedPrice, findQuotation(resolvedPrice, records.priceList ?? null)),
        ]);
        print(table(["MODEL", "GROUPS", "TIMES", "SOURCE", "DATE", "USD"], cells, paint));
      }
      if (own.length === 0 && only === undefined) remark("No models yet. Apply a configuration file first.");
    }),
};

/** One row for each different price: usually all groups share one. */
function buildRows(model: ModelRecord, records: PolicyRecords): PriceRow[] {
  const termsFor = openPricing(records);
  const rows = new Map<string, PriceRow>();
  for (const group of records.groups) {
    if (!group.models.includes(model.id)) continue;
    const { price: resolvedPrice, tariff } = termsFor(group)(model);
    const multiplier = tariff === null ? "-" : multiplierText(tariff);
    const key = JSON.stringify([resolvedPrice, multiplier]);
    const row = rows.get(key) ?? { model: model.id, groups: [], resolvedPrice, multiplier };
    row.groups.push(group.name);
    rows.set(key, row);
  }
  if (rows.size > 0) return [...rows.values()];
  const own: ResolvedPrice | null =
    model.price === null ? null : { price: model.price, source: "model", listed: null };
  return [
    {
      model: model.id,
      groups: [],
      resolvedPrice: own ?? listedRow(model.id, records.priceList ?? null)?.resolvedPrice ?? null,
      multiplier: "-",
    },
  ];
}

function listedNames(updated: PriceList | null): string[] {
  return [...new Set([...Object.keys(updated?.models ?? {}), ...Object.keys(BUNDLED_PRICES.models)])].sort();
}

function listedRow(name: string, updated: PriceList | null): PriceRow | null {
  const found = findListed(name, updated);
  if (found === null) return null;
  const { model, source, date } = found;
  const price = { price: model.price, source, listed: { name, date } };
  return { model: name, groups: [], resolvedPrice: price, multiplier: "-" };
}

function formatSource(model: string, found: ResolvedPrice | null): string {
  if (found === null) return "-";
  const { source, listed } = found;
  return listed === null || listed.name === model ? source : `${source}, as ${listed.name}`;
}

function findQuotation(found: ResolvedPrice | null, updated: PriceList | null): PriceQuotation | null {
  const listed = found?.listed ?? null;
  return listed === null ? null : (findListed(listed.name, updated)?.model.quotation ?? null);
}

/** A quoted price has the day of the quotation. */
function priceText({ price }: ResolvedPrice, quotation: PriceQuotation | null): string {
  return Object.entries(flatPrice(price))
    .map(([unit, usd]) =>
      quotation?.units.includes(unit) ? `${unit} ${usd} (quoted ${quotation.date})` : `${unit} ${usd}`,
    )
    .join(", ");
}

const NO_LIST = `The format of a price list is in: ${PROGRAM} prices update --help`;

function importPrices(installation: Installation, list: PriceList): Promise<Change[]> {
  return runLogged(
    installation,
    async ({ db }) => {
      const found = listChanges(await readPriceList(db), list);
      if (found.length > 0) await writePriceList(db, list);
      return found;
    },
    (found) =>
      found.length === 0
        ? null
        : {
            action: "price_list.change",
            target: "price list",
            changes: found.flatMap(listedModelFields),
          },
  );
}

export const updatePrices: CommandDefinition = {
  changes: "policy",
  about: `The file is YAML or JSON:

  date: 2026-11-01
  models:
    gpt-4o: { price: { input: "2.50", cached_input: "1.25", output: "10" }, context_tokens: 128000, max_output_tokens: 16384 }

It replaces the list of the last update, and is rejected if it is older. Models that are not in it use the bundled list. Prices in gateway.yaml take precedence over both. A running server applies it without a restart; requests in
flight keep their price.`,
  options: {
    from: { value: "FILE", about: "the price list", required: true },
    older: { about: "import the list even if it is older than the list of the last update" },
    "dry-run": { about: "show the changes without writing them" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const { db } = installation;
      const { terminal } = input;
      const json = input.flag("json");
      const dry = input.flag("dry-run");
      const fileName = input.require("from");
      const inUse = input.flag("older") ? null : await readPriceList(db);
      const parsed = parsePriceList(readConfigFile(fileName, NO_LIST), { fileName }, inUse);
      if (!parsed.ok) {
        if (json) terminal.print(JSON.stringify({ problems: parsed.problems }, null, 2));
        else printProblems(parsed.problems, terminal);
        return 1;
      }
      const { list } = parsed;
      const changes = dry
        ? listChanges(await readPriceList(db), list)
        : await importPrices(installation, list);
      const records = { ...(await readPolicy(db)), priceList: list };
      const unpriced = unpricedPublications(records);
      const oldestDate = computeOldestDate(installation.clock.nowMs(), limits.priceAgeDaysMax);
      const outdated = listOldPrices(records, oldestDate);
      if (json) {
        terminal.print(JSON.stringify({ applied: !dry, changes, unpriced, outdated }, null, 2));
        return 0;
      }
      if (changes.length === 0) {
        terminal.print("No changes: the price list matches the file.");
      } else {
        terminal.print(differenceText(changes, terminal.paint));
        terminal.print(dry ? "\nDry run: no changes were written." : "\nApplied.");
      }
      for (const { group, model } of unpriced) {
        terminal.printNote(
          `Group ${group} charges and does not publish ${model}, because the model has no price.`,
        );
      }
      if (outdated.length > 0) {
        terminal.printNote(
          `Prices older than ${limits.priceAgeDaysMax} days are in use: ${outdated.map(describeOldPrice).join(", ")}. Compare them with the vendor's page, and set your own price or import a newer list.`,
        );
      }
      return 0;
    }),
};

function describeOldPrice({ model, unit, date }: OldListPrice): string {
  return `${model}${unit === null ? "" : ` ${unit}`} (${date})`;
}
