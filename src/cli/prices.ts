/** `model-gateway prices`: lists the prices of models with their sources, and updates the price list. */

import { listChanges, listedModelFields, parsePriceList } from "../config/parse/price-list-file.ts";
import { BUNDLED_PRICES, findListed } from "../money/price-list.ts";
import { flatPrice } from "../money/prices.ts";
import { multiplierText } from "../money/tariff.ts";
import { openPricing, type ResolvedPrice } from "../policy/pricing.ts";
import { unpricedPublications } from "../policy/publication.ts";
import type { ModelRecord, PolicyRecords, PriceList } from "../records.ts";
import { readPolicy } from "../store/policy/policy.ts";
import { readPriceList, writePriceList } from "../store/policy/price-list.ts";
import { differenceText, printProblems, readConfigFile } from "./apply.ts";
import { type Command, DATA_OPTION, fail, JSON_OPTION } from "./command.ts";
import { audited } from "./operator.ts";
import { withInstallation } from "./store-access.ts";
import { table } from "./terminal.ts";

interface Row {
  model: string;
  /** The groups that use this price; empty for an entry of a list. */
  groups: string[];
  found: ResolvedPrice | null;
  /** The group's multiplier times the model's. */
  times: string;
}

export const listPrices: Command = {
  words: "prices list",
  summary: "List what models cost, and where each price comes from",
  about: `A price that the file gives to a group's model wins, then the model's own, then the list of \`prices update\`,
then the bundled list of ${BUNDLED_PRICES.date}. USD for a million tokens; image and images for one image, request for one request.
TIMES is what a group multiplies the price with.`,
  options: {
    model: { value: "MODEL", about: "this model alone, public or in a list" },
    all: { about: "also what the lists know and no model here uses" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async ({ db }) => {
      const { print, remark, paint } = input.terminal;
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
        fail(`No model and no list has the name "${only}".`, `See: ${input.command("prices list", "--all")}`);
      }
      if (input.flag("json")) {
        const output = rows.map(({ model, groups, found, times }) => ({
          model,
          groups,
          multiplier: times,
          source: found?.source ?? null,
          listed_as: found?.listed?.name ?? null,
          date: found?.listed?.date ?? null,
          price: found?.price ?? null,
        }));
        print(JSON.stringify(output, null, 2));
        return 0;
      }
      if (rows.length > 0) {
        const cells = rows.map(({ model, groups, found, times }) => [
          model,
          groups.length === 0 ? "-" : groups.join(", "),
          times,
          formatSource(model, found),
          found?.listed?.date ?? "-",
          // The last column, because it may be long.
          found === null ? paint.yellow("none") : priceText(found),
        ]);
        print(table(["MODEL", "GROUPS", "TIMES", "SOURCE", "DATE", "USD"], cells, paint));
      }
      if (own.length === 0 && only === undefined) remark("There are no models yet. Apply a file first.");
      return 0;
    }),
};

/** One row for each different price: usually all groups share one. */
function buildRows(model: ModelRecord, records: PolicyRecords): Row[] {
  const termsFor = openPricing(records);
  const rows = new Map<string, Row>();
  for (const group of records.groups) {
    if (!group.models.includes(model.id)) continue;
    const { price: found, tariff } = termsFor(group)(model);
    const times = tariff === null ? "-" : multiplierText(tariff);
    const key = JSON.stringify([found, times]);
    const row = rows.get(key) ?? { model: model.id, groups: [], found, times };
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
      found: own ?? listedRow(model.id, records.priceList ?? null)?.found ?? null,
      times: "-",
    },
  ];
}

function listedNames(updated: PriceList | null): string[] {
  return [...new Set([...Object.keys(updated?.models ?? {}), ...Object.keys(BUNDLED_PRICES.models)])].sort();
}

function listedRow(name: string, updated: PriceList | null): Row | null {
  const found = findListed(name, updated);
  if (found === null) return null;
  const { model, source, date } = found;
  const price = { price: model.price, source, listed: { name, date } };
  return { model: name, groups: [], found: price, times: "-" };
}

function formatSource(model: string, found: ResolvedPrice | null): string {
  if (found === null) return "-";
  const { source, listed } = found;
  return listed === null || listed.name === model ? source : `${source}, as ${listed.name}`;
}

function priceText({ price }: ResolvedPrice): string {
  return Object.entries(flatPrice(price))
    .map(([unit, usd]) => `${unit} ${usd}`)
    .join(", ");
}

const NO_LIST = "The form of a list is in: npx model-gateway prices update --help";

export const updatePrices: Command = {
  words: "prices update",
  summary: "Take in a newer list of prices from a file",
  about: `The file is YAML or JSON:

  date: 2026-11-01
  models:
    gpt-4o: { price: { input: "2.50", cached_input: "1.25", output: "10" }, context_tokens: 128000, max_output_tokens: 16384 }

It replaces the list of the last update, and is refused if it is older than that one; what it does not name is
priced by the bundled list. Prices in gateway.yaml win over both. A running server takes it in by itself; requests
under way keep their price.`,
  options: {
    from: { value: "FILE", about: "the list", required: true },
    older: { about: "take it in even if it is older than the list of the last update" },
    "dry-run": { about: "show the difference and change nothing" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const { db } = installation;
      const { terminal } = input;
      const json = input.flag("json");
      const dry = input.flag("dry-run");
      const fileName = input.need("from");
      const inUse = input.flag("older") ? null : await readPriceList(db);
      const parsed = parsePriceList(readConfigFile(fileName, NO_LIST), fileName, inUse);
      if (!parsed.ok) {
        if (json) terminal.print(JSON.stringify({ problems: parsed.problems }, null, 2));
        else printProblems(parsed.problems, terminal);
        return 1;
      }
      const { list } = parsed;
      const changes = await audited(
        installation,
        async (txInstallation) => {
          const found = listChanges(await readPriceList(txInstallation.db), list);
          if (found.length > 0 && !dry) await writePriceList(txInstallation.db, list);
          return found;
        },
        (found) =>
          found.length === 0 || dry
            ? null
            : {
                action: "price_list.change",
                target: "price list",
                changes: found.flatMap(listedModelFields),
              },
      );
      const unpriced = unpricedPublications({ ...(await readPolicy(db)), priceList: list });
      if (json) {
        terminal.print(JSON.stringify({ applied: !dry, changes, unpriced }, null, 2));
        return 0;
      }
      if (changes.length === 0) {
        terminal.print("Nothing to change: the list is as the file says.");
      } else {
        terminal.print(differenceText(changes, terminal.paint));
        terminal.print(dry ? "\nNothing was written: this was a dry run." : "\nApplied.");
      }
      for (const { group, model } of unpriced) {
        terminal.remark(`The group ${group} charges, and does not publish ${model}: it has no price.`);
      }
      return 0;
    }),
};
