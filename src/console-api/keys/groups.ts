/** Lists the groups in which the caller may create keys, with their models and prices. */

import { z } from "zod";
import { listTranslated, type PolicyGroup, type PublishedModel } from "../../policy/snapshot.ts";
import { CHARGES, GROUP_ACCESS } from "../../records/group.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import { findUser } from "../../store/identity/users.ts";
import { ownerQuery, resolveOwner } from "../auth/owner.ts";
import { limitsObject, limitsShape } from "../forms/limits-form.ts";
import { priceObject, priceResponse } from "../forms/price-form.ts";
import { forUsers } from "../http/route.ts";
import { filterUsableGroups } from "./usable-groups.ts";

const interfaces = z.array(z.enum(INTERFACES));

export const offeredModelResponse = z.object({
  id: z.string(),
  interfaces,
  /** Those of the interfaces that no account has itself: requests are translated. */
  translated_interfaces: interfaces,
  /** Null if no price is configured. Then nothing is charged. */
  price: priceResponse.nullable(),
  context_tokens: z.number().nullable(),
  max_output_tokens: z.number().nullable(),
});

const groupResponse = z.object({
  name: z.string(),
  access: z.enum(GROUP_ACCESS),
  interfaces,
  /** The payer: none, the balance of the user, or a subscription of the user. */
  charge: z.enum(CHARGES),
  /** For subscriptions: the plans that may pay; null: any. */
  plans: z.array(z.string()).nullable(),
  models: z.array(offeredModelResponse),
  /** For each key separately. */
  limits: limitsShape,
});

export const groupRoutes = {
  "groups.list": forUsers({
    method: "GET",
    path: "/api/groups",
    summary: "List the groups in which you can create keys, with models, interfaces, prices and limits",
    query: z.strictObject(ownerQuery),
    response: z.object({ data: z.array(groupResponse), next: z.null() }),
    async run({ installation, gateway }, { actor, query }) {
      const user = await findUser(installation.db, resolveOwner(actor, query.user));
      const groups = user === null ? [] : filterUsableGroups(gateway.policy.snapshot(), user);
      return { data: groups.map(groupObject), next: null };
    },
  }),
};

function groupObject(group: PolicyGroup): z.input<typeof groupResponse> {
  return {
    name: group.name,
    access: group.access,
    interfaces: [...group.interfaces],
    charge: group.billing.charge,
    plans: group.billing.plans === null ? null : [...group.billing.plans],
    models: [...group.models.values()].map(offeredModelObject),
    limits: limitsObject(group.limits),
  };
}

export function offeredModelObject(model: PublishedModel): z.input<typeof offeredModelResponse> {
  return {
    id: model.id,
    interfaces: [...model.routes.keys()],
    translated_interfaces: listTranslated(model),
    price: model.tariff === null ? null : priceObject(model.tariff),
    context_tokens: model.contextTokens,
    max_output_tokens: model.outputTokensMax,
  };
}
