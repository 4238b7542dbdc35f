/** Routes for public models: publish them to groups, map them to accounts and set prices, individually or in bulk. */

import { z } from "zod";
import { DAY_MS } from "../../base/time.ts";
import { limits } from "../../config/limits/product-limits.ts";
import type { GatewayDocument } from "../../config/schema/schema.ts";
import { accountToFile, groupToFile, modelToFile, nameRecords } from "../../config/state/to-file-shape.ts";
import { ApiError } from "../../errors.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import type { ModelRecord } from "../../records/model.ts";
import type { PolicyRecords } from "../../records/policy.ts";
import { readModelUse } from "../../store/policy/model-usage.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import { changePolicy } from "../changes/change.ts";
import type { StoreContext } from "../context.ts";
import { modelForm, priceForm } from "../forms/policy-forms.ts";
import { fieldError } from "../http/field-error.ts";
import { namedPage, selectMembers } from "../http/named-page.ts";
import { buildPage, groupQuery, pageQuery, searchQuery } from "../http/page.ts";
import { forAdmins, forAuditors } from "../http/route.ts";
import { modelResponse, openModelView } from "./model-view.ts";

const byId = { params: z.strictObject({ id: z.string() }) };
const groupNameList = z.array(z.string()).max(1_000).default([]);
const modelIdList = z.array(z.string()).min(1).max(1_000);
const changedResponse = z.object({ changed: z.number() });
const mapping = z.strictObject({
  account: z.string(),
  /** A public name, optionally with a trailing `*`. */
  model: z.string(),
  /** Null: the account does not map the model. */
  upstream_model: z.string().nullable(),
});

export const adminModelRoutes = {
  "admin.models.list": forAuditors({
    method: "GET",
    path: "/api/admin/models",
    summary: "List public models, with their groups, accounts and prices",
    query: z.strictObject({ ...pageQuery, ...searchQuery, ...groupQuery }),
    response: buildPage(modelResponse),
    async run(context, { query }) {
      const records = await readPolicy(context.installation.db);
      const isListed = selectMembers(records, query.group, ({ models }) => models);
      const models = records.models.filter(({ id }) => isListed(id));
      const { page, next } = namedPage(models, ({ id }) => id, query);
      return { data: page.map(await openView(context, records)), next };
    },
  }),
  "admin.models.get": forAuditors({
    ...byId,
    method: "GET",
    path: "/api/admin/models/:id",
    summary: "Get a model",
    response: modelResponse,
    run: (context, { params }) => readModelResponse(context, params.id),
  }),
  "admin.models.create": forAdmins({
    method: "POST",
    path: "/api/admin/models",
    summary: "Create a model and publish it in groups",
    body: z.strictObject({ document: modelForm, groups: z.array(z.string()).default([]) }),
    response: modelResponse,
    async run(context, input) {
      const { document, groups } = input.body;
      await changePolicy(context, input, async (context) => {
        const records = await readPolicy(context.installation.db);
        if (records.models.some(({ id }) => id === document.id)) {
          throw fieldError("id", "conflict", "another model already has this name. Choose another name.");
        }
        if (groups.length === 0) return { models: [document] };
        return {
          models: [document],
          ...withPublications(records, groups, (models) => [...models, document.id]),
        };
      });
      return readModelResponse(context, document.id);
    },
  }),
  "admin.models.save": forAdmins({
    ...byId,
    method: "PUT",
    path: "/api/admin/models/:id",
    summary: "Replace the configuration of a model",
    body: modelForm,
    response: modelResponse,
    async run(context, input) {
      const { model } = await findModel(context, input.params.id);
      if (input.body.id !== model.id) {
        throw fieldError(
          "id",
          "invalid_value",
          "the name of a model cannot be changed, because clients send it. Create another model.",
        );
      }
      await changePolicy(context, input, { models: [input.body] });
      return readModelResponse(context, model.id);
    },
  }),
  "admin.models.delete": forAdmins({
    ...byId,
    method: "DELETE",
    path: "/api/admin/models/:id",
    summary: "Delete a model and remove it from every group",
    response: z.object({ groups: z.array(z.string()) }),
    async run(context, input) {
      const { model, records } = await findModel(context, input.params.id);
      await changePolicy(context, input, {}, { models: [model.id] });
      const groups = records.groups.filter(({ models }) => models.includes(model.id));
      return { groups: groups.map(({ name }) => name) };
    },
  }),
  "admin.models.publish": forAdmins({
    method: "POST",
    path: "/api/admin/model-publications",
    summary: "Publish models in groups, or remove them, in bulk",
    body: z.strictObject({
      models: modelIdList,
      add: groupNameList,
      remove: groupNameList,
    }),
    bodyBytesMax: limits.apiBulkBodyBytesMax,
    response: changedResponse,
    async run(context, input) {
      const { models, add, remove } = input.body;
      const removed = new Set(remove);
      const conflicting = add.find((name) => removed.has(name));
      if (conflicting !== undefined) {
        throw fieldError(
          "remove",
          "invalid_value",
          `the group "${conflicting}" is in both lists. Add or remove its models, not both.`,
        );
      }
      const { changes } = await changePolicy(context, input, async (context) => {
        const records = await readPolicy(context.installation.db);
        rejectUnknownModels(models, records);
        const extended = withPublications(records, add, (present) => [...new Set([...present, ...models])]);
        const reduced = withPublications(records, remove, (present) =>
          present.filter((id) => !models.includes(id)),
        );
        return { groups: [...extended.groups, ...reduced.groups] };
      });
      return { changed: changes.length };
    },
  }),
  "admin.models.map": forAdmins({
    method: "POST",
    path: "/api/admin/model-mappings",
    summary: "Map models to the upstream names of accounts, in bulk",
    body: z.strictObject({
      mappings: z.array(mapping).min(1).max(5_000),
    }),
    bodyBytesMax: limits.apiBulkBodyBytesMax,
    response: changedResponse,
    async run(context, input) {
      const byAccount = Map.groupBy(input.body.mappings, ({ account }) => account);
      const { changes } = await changePolicy(context, input, async (context) => {
        const records = await readPolicy(context.installation.db);
        return { accounts: [...byAccount].map(([name, mappings]) => mapModels(records, name, mappings)) };
      });
      return { changed: changes.length };
    },
  }),
  "admin.models.edit": forAdmins({
    method: "PATCH",
    path: "/api/admin/models",
    summary: "Update the same fields of several models",
    body: z.strictObject({
      models: modelIdList,
      set: z.strictObject({
        interfaces: z.array(z.enum(INTERFACES)).optional(),
        /** Null: no price on the model, so that the price list applies. */
        price: priceForm.nullable().optional(),
        context_tokens: z.number().nullable().optional(),
        max_output_tokens: z.number().nullable().optional(),
      }),
    }),
    bodyBytesMax: limits.apiBulkBodyBytesMax,
    response: changedResponse,
    async run(context, input) {
      const { models, set } = input.body;
      const { changes } = await changePolicy(context, input, async (context) => {
        const records = await readPolicy(context.installation.db);
        rejectUnknownModels(models, records);
        const selected = records.models.filter(({ id }) => models.includes(id));
        return { models: selected.map((model) => mergeFields(model, set)) };
      });
      return { changed: changes.length };
    },
  }),
};

function mapModels(
  records: PolicyRecords,
  name: string,
  mappings: readonly Omit<z.output<typeof mapping>, "account">[],
) {
  const account = records.accounts.find((one) => one.name === name);
  if (account === undefined) throw notFoundError("account", name, "mappings");
  const written = accountToFile(account);
  const models = new Map(Object.entries(written.models));
  for (const { model, upstream_model: upstream } of mappings) {
    if (upstream === null) models.delete(model);
    else models.set(model, upstream);
  }
  return { ...written, models: Object.fromEntries(models) };
}

/** Null removes a field. A missing field is kept. */
function mergeFields(model: ModelRecord, set: Readonly<Record<string, unknown>>): object {
  const fields = Object.entries({ ...modelToFile(model), ...set });
  return Object.fromEntries(fields.filter(([, value]) => value !== null && value !== undefined));
}

/** Returns these groups with other models. Settings of a group for models that it loses are removed with them. */
function withPublications(
  records: PolicyRecords,
  names: readonly string[],
  change: (models: readonly string[]) => string[],
): { groups: NonNullable<GatewayDocument["groups"]> } {
  const recordNames = nameRecords(records);
  return {
    groups: names.map((name) => {
      const group = records.groups.find((one) => one.name === name);
      if (group === undefined) throw notFoundError("group", name, "groups");
      const models = change(group.models);
      const { billing, ...written } = groupToFile(group, recordNames);
      const keepPublished = <Value>(named: Readonly<Record<string, Value>> = {}) =>
        Object.fromEntries(Object.entries(named).filter(([model]) => models.includes(model)));
      return {
        ...written,
        models,
        billing: {
          ...billing,
          model_multipliers: keepPublished(billing.model_multipliers),
          model_prices: keepPublished(billing.model_prices),
        },
      };
    }),
  };
}

function rejectUnknownModels(models: readonly string[], records: PolicyRecords): void {
  const known = new Set(records.models.map(({ id }) => id));
  const unknown = models.find((id) => !known.has(id));
  if (unknown !== undefined) throw notFoundError("model", unknown, "models");
}

function notFoundError(noun: string, name: string, param: string): ApiError {
  return fieldError(param, "not_found", `the ${noun} "${name}" does not exist.`);
}

interface ModelLookup {
  model: ModelRecord;
  records: PolicyRecords;
}

async function findModel({ installation }: StoreContext, id: string): Promise<ModelLookup> {
  const records = await readPolicy(installation.db);
  const model = records.models.find((one) => one.id === id);
  if (model !== undefined) return { model, records };
  throw new ApiError("not_found", "This model does not exist. GET /api/admin/models lists the models.");
}

async function openView({ installation: { db, clock } }: StoreContext, records: PolicyRecords) {
  return openModelView(records, await readModelUse(db, clock.nowMs() - DAY_MS));
}

async function readModelResponse(context: StoreContext, id: string): Promise<z.input<typeof modelResponse>> {
  const { model, records } = await findModel(context, id);
  const view = await openView(context, records);
  return view(model);
}
