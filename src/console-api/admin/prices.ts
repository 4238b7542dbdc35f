/** Lists of public prices: the bundled one, and the operator's, whose entries stand for those of the same name. */

import { z } from "zod";
import { fieldsOfListed, listChanges, parsePriceList } from "../../config/parse/price-list-file.ts";
import { limits } from "../../config/product-limits.ts";
import { BUNDLED_PRICES, findListed } from "../../money/price-list.ts";
import { unpricedPublications } from "../../policy/publication.ts";
import { appendChange } from "../../store/change-log/change-log.ts";
import { transaction } from "../../store/engine/db.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import { readPriceList, writePriceList } from "../../store/policy/price-list.ts";
import { auditOf } from "../changes/change-log-entry.ts";
import { changeAnswer, changeObject, placedProblem, placedProblems } from "../changes/config-view.ts";
import { priceForm } from "../forms/policy-forms.ts";
import { namedPage } from "../http/named-page.ts";
import { buildPage, pageQuery, searchQuery } from "../http/page.ts";
import { forAdmins, TAKES_NOTHING } from "../http/route.ts";

const listInfo = z.object({ date: z.string(), models: z.number() });

export const adminPriceRoutes = {
  "admin.prices.list": forAdmins({
    ...TAKES_NOTHING,
    method: "GET",
    path: "/api/admin/prices",
    summary: "List the entries of the price lists, with their dates",
    query: z.strictObject({ ...pageQuery, ...searchQuery }),
    answer: buildPage(
      z.object({
        name: z.string(),
        source: z.enum(["updated list", "bundled list"]),
        date: z.string(),
        price: priceForm,
        context_tokens: z.number().nullable(),
        max_output_tokens: z.number().nullable(),
      }),
    ),
    async run({ installation: { db } }, { query }) {
      const updated = await readPriceList(db);
      const names = new Set([...Object.keys(updated?.models ?? {}), ...Object.keys(BUNDLED_PRICES.models)]);
      const { page, next } = namedPage([...names], (name) => name, query);
      return {
        data: page.flatMap((name) => {
          const found = findListed(name, updated);
          if (found === null) return [];
          const { model, source, date } = found;
          const { price, contextTokens, outputTokensMax } = model;
          return {
            name,
            source,
            date,
            price,
            context_tokens: contextTokens,
            max_output_tokens: outputTokensMax,
          };
        }),
        next,
      };
    },
  }),
  "admin.prices.about": forAdmins({
    ...TAKES_NOTHING,
    method: "GET",
    path: "/api/admin/price-lists",
    summary: "List the price lists, with their dates",
    answer: z.object({
      bundled: listInfo,
      /** The operator's; null while there is none. */
      updated: listInfo.nullable(),
    }),
    async run({ installation: { db } }) {
      const updated = await readPriceList(db);
      return { bundled: infoOf(BUNDLED_PRICES), updated: updated === null ? null : infoOf(updated) };
    },
  }),
  "admin.prices.update": forAdmins({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/admin/prices",
    summary: "Update the custom price list, or preview the changes",
    body: z.strictObject({
      /** YAML or JSON: `date`, and `models` with a `price` each. */
      text: z.string(),
      dry_run: z.boolean(),
    }),
    bodyBytesMax: limits.apiBulkBodyBytesMax,
    answer: z.object({
      problems: placedProblems,
      changes: z.array(changeAnswer),
      applied: z.boolean(),
      /** Models that a group publishes, charges for, and has no price for with this list: no key sees them. */
      unpriced: z.array(z.object({ group: z.string(), model: z.string() })),
    }),
    async run({ installation: { db, clock }, gateway }, asked) {
      const { text, dry_run: dry } = asked.body;
      const parsed = parsePriceList(text, "prices", await readPriceList(db));
      if (!parsed.ok) {
        return { problems: parsed.problems.map(placedProblem), changes: [], applied: false, unpriced: [] };
      }
      const { list } = parsed;
      const changes = await transaction(db, async (tx) => {
        const found = listChanges(await readPriceList(tx), list);
        if (found.length === 0 || dry) return found;
        await writePriceList(tx, list);
        const entry = { atMs: clock.nowMs(), action: "price_list.change", target: "price list" };
        await appendChange(tx, auditOf(asked, { ...entry, changes: found.flatMap(fieldsOfListed) }));
        return found;
      });
      if (!dry) await gateway.policy.refresh();
      const unpriced = unpricedPublications({ ...(await readPolicy(db)), priceList: list });
      return {
        problems: [],
        changes: changes.map(changeObject),
        applied: !dry && changes.length > 0,
        unpriced,
      };
    },
  }),
};

function infoOf({ date, models }: { date: string; models: object }) {
  return { date, models: Object.keys(models).length };
}
