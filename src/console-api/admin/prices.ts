/** Routes for price lists: the bundled one, and the operator's, whose entries override those of the same name. */

import { z } from "zod";
import { limits } from "../../config/limits/product-limits.ts";
import { BUNDLED_PRICES, findListed } from "../../money/price-list.ts";
import { readPriceList } from "../../store/policy/price-list.ts";
import { changeAuthor } from "../changes/audit-log-entry.ts";
import { changeResponse, problemsResponse } from "../files/config-view.ts";
import { priceForm } from "../forms/policy-forms.ts";
import { namedPage } from "../http/named-page.ts";
import { buildPage, pageQuery, searchQuery } from "../http/page.ts";
import { forAdmins, forAuditors } from "../http/route.ts";

const listInfo = z.object({ date: z.string(), models: z.number() });

export const adminPriceRoutes = {
  "admin.prices.list": forAuditors({
    method: "GET",
    path: "/api/admin/prices",
    summary: "List the entries of the price lists, with their dates",
    query: z.strictObject({ ...pageQuery, ...searchQuery }),
    response: buildPage(
      z.object({
        name: z.string(),
        source: z.enum(["updated list", "bundled list"]),
        date: z.string(),
        price: priceForm,
        context_tokens: z.number().nullable(),
        max_output_tokens: z.number().nullable(),
        /** Prices that were not read on the provider's own page; null if there are none. */
        quotation: z.object({ units: z.array(z.string()), source: z.string(), date: z.string() }).nullable(),
      }),
    ),
    async run({ installation: { db } }, { query }) {
      const updated = await readPriceList(db);
      const names = new Set([...Object.keys(updated?.models ?? {}), ...Object.keys(BUNDLED_PRICES.models)]);
      const { page, next } = namedPage([...names], (name) => name, query);
      return {
        data: page.flatMap((name) => {
          const listing = findListed(name, updated);
          if (listing === null) return [];
          const { model, source, date } = listing;
          const { price, contextTokens, outputTokensMax, quotation } = model;
          return {
            name,
            source,
            date,
            price,
            context_tokens: contextTokens,
            max_output_tokens: outputTokensMax,
            quotation: quotation === undefined ? null : { ...quotation, units: [...quotation.units] },
          };
        }),
        next,
      };
    },
  }),
  "admin.prices.about": forAuditors({
    method: "GET",
    path: "/api/admin/price-lists",
    summary: "List the price lists, with their dates",
    response: z.object({
      bundled: listInfo,
      /** The price list of the operator; null if there is none. */
      updated: listInfo.nullable(),
    }),
    async run({ installation: { db } }) {
      const updated = await readPriceList(db);
      return {
        bundled: describeList(BUNDLED_PRICES),
        updated: updated === null ? null : describeList(updated),
      };
    },
  }),
  "admin.prices.update": forAdmins({
    method: "POST",
    path: "/api/admin/prices",
    summary: "Update the custom price list, or preview the changes",
    body: z.strictObject({
      /** YAML or JSON with `date`, and `models` with a `price` each. */
      text: z.string().max(limits.apiFileBytesMax),
      dry_run: z.boolean(),
    }),
    bodyBytesMax: limits.apiFileBodyBytesMax,
    response: z.object({
      problems: problemsResponse,
      changes: z.array(changeResponse),
      applied: z.boolean(),
      /** Models that a charging group publishes without a price under this list. No key can see them. */
      unpriced: z.array(z.object({ group: z.string(), model: z.string() })),
      /** List prices in use that were collected long ago; `unit` is null for a whole entry. */
      outdated: z.array(z.object({ model: z.string(), unit: z.string().nullable(), date: z.string() })),
    }),
    async run({ files, gateway }, input) {
      const { text, dry_run: isDryRun } = input.body;
      const response = await files.run({ kind: "prices", text, isDryRun }, changeAuthor(input));
      if (!isDryRun) await gateway.policy.refresh();
      return response;
    },
  }),
};

function describeList({ date, models }: { date: string; models: object }) {
  return { date, models: Object.keys(models).length };
}
