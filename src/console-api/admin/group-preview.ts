/** Previews what a key of a group can use: the models that GET /v1/models lists, and why others are missing. */

import { z } from "zod";
import { listModels } from "../../gateway/endpoints/models.ts";
import { multiplierText } from "../../money/tariff.ts";
import { openPricing } from "../../policy/pricing.ts";
import { openPublicationChecks, type Shortcoming } from "../../policy/publication.ts";
import { compileSnapshot } from "../../policy/snapshot.ts";
import type { GroupRecord } from "../../records/group.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import type { PolicyRecords } from "../../records/policy.ts";
import { priceObject, priceResponse } from "../forms/price-form.ts";

const shortcomingResponse = z.object({
  kind: z.enum(["no_account", "unmapped", "no_shared_interface", "unsupported_interface", "no_price"]),
  /** The affected interfaces; empty if all are. */
  interfaces: z.array(z.enum(INTERFACES)),
});

export const priceSourceResponse = z.object({
  source: z.enum(["group", "model", "updated list", "bundled list"]),
  /** The price list that the price comes from, and the name of the model there. */
  listed: z.object({ name: z.string(), date: z.string() }).nullable(),
});

export const modelPreviewResponse = z.object({
  id: z.string(),
  /** Whether GET /v1/models lists it. */
  listed: z.boolean(),
  /** The interfaces that a key can use. */
  interfaces: z.array(z.enum(INTERFACES)),
  /** The price to pay, including multipliers; null if no price is configured. */
  price: priceResponse.nullable(),
  price_source: priceSourceResponse.nullable(),
  multiplier: z.string().nullable(),
  context_tokens: z.number().nullable(),
  max_output_tokens: z.number().nullable(),
  /** Enabled accounts that serve it, best priority first. */
  accounts: z.array(z.object({ name: z.string(), upstream_model: z.string() })),
  shortcomings: z.array(shortcomingResponse),
});

export function buildPreview(
  group: GroupRecord,
  records: PolicyRecords,
): z.input<typeof modelPreviewResponse>[] {
  const pool = new Set(group.accounts);
  const groupRecords = {
    ...records,
    groups: [group],
    accounts: records.accounts.filter(({ id }) => pool.has(id)),
  };
  // No request is sent, so neither credentials nor the URL of the simulator are needed.
  const { groups } = compileSnapshot(groupRecords, { unseal: () => null, simulatorUrl: null });
  const compiled = groups.get(group.id);
  if (compiled === undefined) return [];
  const listed = new Set(listModels(compiled).data.map(({ id }) => id));
  const lookUpTerms = openPricing(groupRecords)(group);
  return openPublicationChecks(groupRecords)(group).map(({ model, shortcomings }) => {
    const { price, tariff, contextTokens, outputTokensMax } = lookUpTerms(model);
    const published = compiled.models.get(model.id);
    const routes = [...(published?.routes.values() ?? [])].flat();
    const accounts = new Map(routes.map(({ account, upstreamModel }) => [account.name, upstreamModel]));
    return {
      id: model.id,
      listed: listed.has(model.id),
      interfaces: INTERFACES.filter((name) => published?.routes.has(name)),
      price: tariff === null ? null : priceObject(tariff),
      price_source: price === null ? null : { source: price.source, listed: price.listed },
      multiplier: tariff === null ? null : multiplierText(tariff),
      context_tokens: contextTokens,
      max_output_tokens: outputTokensMax,
      accounts: [...accounts].map(([name, upstream_model]) => ({ name, upstream_model })),
      shortcomings: shortcomings.map(shortcomingObject),
    };
  });
}

function shortcomingObject(shortcoming: Shortcoming): z.input<typeof shortcomingResponse> {
  return {
    kind: shortcoming.kind,
    interfaces: shortcoming.kind === "unsupported_interface" ? shortcoming.interfaces : [],
  };
}
