/** Parses the price list of the operator: YAML or JSON, with the field names of gateway.yaml. */

import { z } from "zod";
import type { FieldChange } from "../../records/policy.ts";
import type { ListedModel, PriceList } from "../../records/price.ts";
import { fields, instantMs, modelName, text } from "../schema/basic-values.ts";
import { modelSizes, priceField } from "../schema/models.ts";
import { changedFields, createdFields, type FormattedFields } from "../state/difference.ts";
import { MODEL_SHAPE } from "../state/file-shape.ts";
import type { Problem } from "../state/problem.ts";
import type { Change } from "../state/step.ts";
import { parseFile, type Source } from "./file.ts";

const listedModels = z.record(modelName, fields({ price: priceField, ...modelSizes }));
const isDay = (value: string) => value.length === 10 && instantMs(value) !== null;

function dateSince(inUse: PriceList | null) {
  const rule = "the date of the prices, like 2026-11-01";
  if (inUse === null) return text(rule, isDay);
  return text(
    `${rule}, not earlier than ${inUse.date}, the date of the current list`,
    (value) => isDay(value) && value >= inUse.date,
  );
}

/** Rejects a list that is older than the active one: importing an old file by mistake would bill at old prices. */
export function parsePriceList(
  text: string,
  source: Pick<Source, "fileName" | "valuesMax">,
  inUse: PriceList | null,
): { ok: true; list: PriceList } | { ok: false; problems: Problem[] } {
  const priceListFile = fields({ date: dateSince(inUse), models: listedModels });
  const parsed = parseFile(text, { ...source, environment: {} }, priceListFile);
  if (!parsed.ok) return parsed;
  const { date, models } = parsed.file;
  const listed = Object.entries(models).map(([name, model]): [string, ListedModel] => [
    name,
    {
      price: model.price,
      contextTokens: model.context_tokens ?? null,
      outputTokensMax: model.max_output_tokens ?? null,
    },
  ]);
  return { ok: true, list: { date, models: Object.fromEntries(listed) } };
}

const NO_LIST: PriceList = { date: "", models: {} };

/** Compares two lists: the models that the new one adds, changes and removes. */
export function listChanges(before: PriceList | null, after: PriceList): Change[] {
  const old = before ?? NO_LIST;
  const describeModel = (list: PriceList, name: string): FormattedFields | null => {
    const model = Object.hasOwn(list.models, name) ? list.models[name] : undefined;
    if (model === undefined) return null;
    const { interfaces: _, ...fields } = MODEL_SHAPE.format({
      ...model,
      id: name,
      interfaces: [],
      fallback: [],
    });
    return fields;
  };
  const names = new Set([...Object.keys(old.models), ...Object.keys(after.models)]);
  const models = [...names].flatMap((name): Change[] => {
    const from = describeModel(old, name);
    const to = describeModel(after, name);
    const what = `price of ${name}`;
    if (to === null) return [{ kind: "remove", what, fields: [] }];
    if (from === null) return [{ kind: "create", what, fields: createdFields(to) }];
    const changed = changedFields(from, to);
    return changed.length === 0 ? [] : [{ kind: "change", what, fields: changed }];
  });
  if (before?.date === after.date) return models;
  const date = { field: "date", from: before?.date ?? null, to: after.date };
  return [{ kind: before === null ? "create" : "change", what: "price list", fields: [date] }, ...models];
}

/**
 * Prefixes the changed fields of a listed model with its name, because the audit log has one entry for the
 * whole list.
 */
export function listedModelFields({ kind, what, fields }: Change): FieldChange[] {
  if (kind === "remove") return [{ field: what, from: "(listed)", to: null }];
  return fields.map(({ field, from, to }) => ({ field: `${what}: ${field}`, from, to }));
}
