/** Public models: publishing them to groups, mapping them to accounts, and pricing them, one by one or many at once. */

import { z } from "zod";
import { limits } from "../../config/product-limits.ts";
import type { GatewayDocument } from "../../config/schema/schema.ts";
import { writtenAccount, writtenGroup, writtenModel } from "../../config/state/to-file-shape.ts";
import { ApiError } from "../../errors.ts";
import { INTERFACES, type ModelRecord, type PolicyRecords } from "../../records.ts";
import { readModelUse } from "../../store/policy/model-facts.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import { DAY_MS } from "../../store/usage/usage-day.ts";
import { changePolicy } from "../changes/change.ts";
import type { ConsoleContext } from "../context.ts";
import { modelForm, priceForm } from "../forms/policy-forms.ts";
import { namedPage } from "../http/named-page.ts";
import { buildPage, pageQuery, searchQuery } from "../http/page.ts";
import { forAdmins, TAKES_NOTHING } from "../http/route.ts";
import { openModelView, shownModel } from "./model-view.ts";

const byId = { params: z.strictObject({ id: z.string() }) };
const someModels = z.array(z.string()).min(1).max(1_000);
const changed = z.object({ changed: z.number() });
const mapping = z.strictObject({
  account: z.string(),
  /** A public name, or one with a `*` at its end. */
  model: z.string(),
  /** Null: the account has no name for it. */
  upstream_model: z.string().nullable(),
});

export const adminModelRoutes = {
  "admin.models.list": forAdmins({
    ...TAKES_NOTHING,
    method: "GET",
    path: "/api/admin/models",
    summary: "List public models, with their groups, accounts and prices",
    query: z.strictObject({ ...pageQuery, ...searchQuery }),
    answer: buildPage(shownModel),
    async run(control, { query }) {
      const records = await readPolicy(control.installation.db);
      const { page, next } = namedPage(records.models, ({ id }) => id, query);
      return { data: page.map(await viewOf(control, records)), next };
    },
  }),
  "admin.models.get": forAdmins({
    ...TAKES_NOTHING,
    ...byId,
    method: "GET",
    path: "/api/admin/models/:id",
    summary: "Get a model",
    answer: shownModel,
    run: (control, { params }) => shownNamed(control, params.id),
  }),
  "admin.models.create": forAdmins({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/admin/models",
    summary: "Create a model and publish it in groups",
    body: z.strictObject({ document: modelForm, groups: z.array(z.string()).default([]) }),
    answer: shownModel,
    async run(control, asked) {
      const { document, groups } = asked.body;
      await changePolicy(control, asked, async (control) => {
        const records = await readPolicy(control.installation.db);
        if (records.models.some(({ id }) => id === document.id)) {
          throw new ApiError("conflict", "id: another model has this name already.", { param: "id" });
        }
        if (groups.length === 0) return { models: [document] };
        return {
          models: [document],
          ...withPublications(records, groups, (models) => [...models, document.id]),
        };
      });
      return shownNamed(control, document.id);
    },
  }),
  "admin.models.save": forAdmins({
    ...TAKES_NOTHING,
    ...byId,
    method: "PUT",
    path: "/api/admin/models/:id",
    summary: "Replace the configuration of a model",
    body: modelForm,
    answer: shownModel,
    async run(control, asked) {
      const { model } = await findModel(control, asked.params.id);
      if (asked.body.id !== model.id) {
        const message = "id: a model keeps its name, for callers send it. Make another one.";
        throw new ApiError("invalid_value", message, { param: "id" });
      }
      await changePolicy(control, asked, { models: [asked.body] });
      return shownNamed(control, model.id);
    },
  }),
  "admin.models.delete": forAdmins({
    ...TAKES_NOTHING,
    ...byId,
    method: "DELETE",
    path: "/api/admin/models/:id",
    summary: "Delete a model and remove it from every group",
    answer: z.object({ groups: z.array(z.string()) }),
    async run(control, asked) {
      const { model, records } = await findModel(control, asked.params.id);
      await changePolicy(control, asked, {}, { models: [model.id] });
      const groups = records.groups.filter(({ models }) => models.includes(model.id));
      return { groups: groups.map(({ name }) => name) };
    },
  }),
  "admin.models.publish": forAdmins({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/admin/model-publications",
    summary: "Publish models in groups, or remove them, in bulk",
    body: z.strictObject({
      models: someModels,
      add: z.array(z.string()).default([]),
      remove: z.array(z.string()).default([]),
    }),
    bodyBytesMax: limits.apiBulkBodyBytesMax,
    answer: changed,
    async run(control, asked) {
      const { models, add, remove } = asked.body;
      const both = add.find((name) => remove.includes(name));
      if (both !== undefined) {
        const message = `remove: the group "${both}" cannot get the models and lose them.`;
        throw new ApiError("invalid_value", message, { param: "remove" });
      }
      const { changes } = await changePolicy(control, asked, async (control) => {
        const records = await readPolicy(control.installation.db);
        refuseUnknown(models, records);
        const getting = withPublications(records, add, (present) => [...new Set([...present, ...models])]);
        const losing = withPublications(records, remove, (present) =>
          present.filter((id) => !models.includes(id)),
        );
        return { groups: [...getting.groups, ...losing.groups] };
      });
      return { changed: changes.length };
    },
  }),
  "admin.models.map": forAdmins({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/admin/model-mappings",
    summary: "Map models to the upstream names of accounts, in bulk",
    body: z.strictObject({
      mappings: z.array(mapping).min(1).max(5_000),
    }),
    bodyBytesMax: limits.apiBulkBodyBytesMax,
    answer: changed,
    async run(control, asked) {
      const byAccount = Map.groupBy(asked.body.mappings, ({ account }) => account);
      const { changes } = await changePolicy(control, asked, async (control) => {
        const records = await readPolicy(control.installation.db);
        return { accounts: [...byAccount].map(([name, mappings]) => mapped(records, name, mappings)) };
      });
      return { changed: changes.length };
    },
  }),
  "admin.models.edit": forAdmins({
    ...TAKES_NOTHING,
    method: "PATCH",
    path: "/api/admin/models",
    summary: "Update the same fields of several models",
    body: z.strictObject({
      models: someModels,
      set: z.strictObject({
        interfaces: z.array(z.enum(INTERFACES)).optional(),
        /** Null: no price of its own, so that a list's counts. */
        price: priceForm.nullable().optional(),
        context_tokens: z.number().nullable().optional(),
        max_output_tokens: z.number().nullable().optional(),
      }),
    }),
    bodyBytesMax: limits.apiBulkBodyBytesMax,
    answer: changed,
    async run(control, asked) {
      const { models, set } = asked.body;
      const { changes } = await changePolicy(control, asked, async (control) => {
        const records = await readPolicy(control.installation.db);
        refuseUnknown(models, records);
        const chosen = records.models.filter(({ id }) => models.includes(id));
        return { models: chosen.map((model) => merged(model, set)) };
      });
      return { changed: changes.length };
    },
  }),
};

function mapped(
  records: PolicyRecords,
  name: string,
  mappings: readonly Omit<z.output<typeof mapping>, "account">[],
) {
  const account = records.accounts.find((one) => one.name === name);
  if (account === undefined) throw notThere("account", name, "mappings");
  const written = writtenAccount(account);
  const models = new Map(Object.entries(written.models));
  for (const { model, upstream_model: upstream } of mappings) {
    if (upstream === null) models.delete(model);
    else models.set(model, upstream);
  }
  return { ...written, models: Object.fromEntries(models) };
}

/** Null takes a field away, and what is not there stays. */
function merged(model: ModelRecord, set: Readonly<Record<string, unknown>>): object {
  const fields = Object.entries({ ...writtenModel(model), ...set });
  return Object.fromEntries(fields.filter(([, value]) => value !== null && value !== undefined));
}

/** These groups with other models. What a group says of models that it loses goes with them. */
function withPublications(
  records: PolicyRecords,
  names: readonly string[],
  change: (models: readonly string[]) => string[],
): { groups: NonNullable<GatewayDocument["groups"]> } {
  const accountNames = new Map(records.accounts.map(({ id, name }) => [id, name]));
  return {
    groups: names.map((name) => {
      const group = records.groups.find((one) => one.name === name);
      if (group === undefined) throw notThere("group", name, "groups");
      const models = change(group.models);
      const { billing, ...written } = writtenGroup(group, accountNames);
      const stay = <Value>(named: Readonly<Record<string, Value>> = {}) =>
        Object.fromEntries(Object.entries(named).filter(([model]) => models.includes(model)));
      return {
        ...written,
        models,
        billing: {
          ...billing,
          model_multipliers: stay(billing.model_multipliers),
          model_prices: stay(billing.model_prices),
        },
      };
    }),
  };
}

function refuseUnknown(models: readonly string[], records: PolicyRecords): void {
  const known = new Set(records.models.map(({ id }) => id));
  const unknown = models.find((id) => !known.has(id));
  if (unknown !== undefined) throw notThere("model", unknown, "models");
}

function notThere(noun: string, name: string, param: string): ApiError {
  return new ApiError("not_found", `${param}: there is no ${noun} "${name}".`, { param });
}

interface Found {
  model: ModelRecord;
  records: PolicyRecords;
}

async function findModel({ installation }: ConsoleContext, id: string): Promise<Found> {
  const records = await readPolicy(installation.db);
  const model = records.models.find((one) => one.id === id);
  if (model !== undefined) return { model, records };
  throw new ApiError("not_found", "There is no such model. GET /api/admin/models lists them.");
}

async function viewOf({ installation: { db, clock } }: ConsoleContext, records: PolicyRecords) {
  return openModelView(records, await readModelUse(db, clock.nowMs() - DAY_MS));
}

async function shownNamed(control: ConsoleContext, id: string): Promise<z.input<typeof shownModel>> {
  const { model, records } = await findModel(control, id);
  const view = await viewOf(control, records);
  return view(model);
}
