/**
 * Checks rules that span several places of the file: references, duplicates, and fields that only one kind of
 * account has. Reads the raw tree instead of the parsed file, so that one invalid value does not hide a wrong
 * reference.
 */

import { mapKinds } from "../../base/map-kinds.ts";
import type { FieldProblem } from "../state/problem.ts";
import { accountFields } from "./check-account.ts";
import { checkServiceAccount } from "./check-service-account.ts";
import { type Item, isRecord, itemsAt, readItems, readText } from "./items.ts";
import {
  type CheckOptions,
  findDuplicates,
  findRepeatedNames,
  type KnownNames,
  NAME_TWICE,
  REFERENCE_SECTIONS,
  ReferenceChecker,
} from "./references.ts";

export function checkReferences(tree: unknown, known: KnownNames, options: CheckOptions): FieldProblem[] {
  const items = mapKinds(REFERENCE_SECTIONS, (section) => readItems(tree, section));
  const { models, accounts, groups, users } = items;
  const keys = readItems(tree, "keys");
  const serviceAccounts = readItems(tree, "service_accounts");
  const references = new ReferenceChecker(items, known, options);
  return [
    ...findRepeatedNames(items),
    ...findDuplicates(serviceAccounts, "name", (one) => readText(one, "name"), NAME_TWICE),
    ...serviceAccounts.flatMap(checkServiceAccount),
    ...findDuplicates(keys, "name", keyIdentity, KEY_TWICE),
    ...findDuplicates(keys, "secret", (key) => readText(key, "secret"), SECRET_TWICE),
    ...accounts.flatMap(accountFields),
    ...accounts.flatMap(wildcards),
    ...models.flatMap((model) => checkFallback(model, references, "model")),
    ...groups.flatMap((group) => checkGroup(group, references)),
    ...groups
      .flatMap((group) => itemsAt(group, "billing"))
      .flatMap((billing) => references.checkList(billing, "plans", "plan")),
    ...users.flatMap((user) => checkUser(user, references)),
    ...checkSignIn(tree, references),
    ...checkToolSignIn(tree, references),
    ...keys.flatMap((key) => checkKey(key, references)),
  ];
}

const KEY_TWICE = "is used twice for this user. Key names must be unique per user.";
const SECRET_TWICE = "is the secret of two keys. Each key needs a different secret.";

function keyIdentity(item: Item): string | undefined {
  const name = readText(item, "name");
  return name === undefined
    ? undefined
    : JSON.stringify([readText(item, "user")?.toLowerCase() ?? null, name]);
}

const SUBSCRIBED_TWICE = "appears twice for this user. Set a different `starts` for each subscription.";

function subscriptionIdentity(item: Item): string | undefined {
  const plan = readText(item, "plan");
  return plan === undefined ? undefined : JSON.stringify([plan, readText(item, "starts") ?? null]);
}

function checkGroup(group: Item, references: ReferenceChecker): FieldProblem[] {
  return [
    ...references.checkList(group, "models", "model"),
    ...references.checkList(group, "accounts", "account"),
    ...checkRequestPolicy(group, references),
    ...checkFallback(group, references, "group"),
    ...checkModelReferences(group, "model_multipliers"),
    ...checkModelReferences(group, "model_prices"),
    ...plansWithoutUse(group),
  ];
}

/** The groups that claims of a provider grant. */
function checkSignIn(tree: unknown, references: ReferenceChecker): FieldProblem[] {
  return readSection(tree, "sign_in")
    .flatMap((section) => itemsAt(section, "providers"))
    .flatMap((provider) => itemsAt(provider, "groups"))
    .flatMap((groups) => references.checkKeys(groups, "group"));
}

/** The groups that tools may use, and those with settings of Claude Code. */
function checkToolSignIn(tree: unknown, references: ReferenceChecker): FieldProblem[] {
  return readSection(tree, "tool_sign_in").flatMap((section) => [
    ...references.checkList(section, "groups", "group"),
    ...itemsAt(section, "claude_code")
      .flatMap((one) => itemsAt(one, "managed_settings"))
      .flatMap((settings) => references.checkKeys(settings, "group")),
  ]);
}

function readSection(tree: unknown, name: string): Item[] {
  return isRecord(tree) ? itemsAt({ path: [], value: tree }, name) : [];
}

function checkUser(user: Item, references: ReferenceChecker): FieldProblem[] {
  const subscriptions = itemsAt(user, "subscriptions");
  return [
    ...references.checkList(user, "groups", "group"),
    ...findDuplicates(subscriptions, "plan", subscriptionIdentity, SUBSCRIBED_TWICE),
    ...subscriptions.flatMap((item) =>
      references.check([...item.path, "plan"], readText(item, "plan"), "plan"),
    ),
  ];
}

function checkKey(key: Item, references: ReferenceChecker): FieldProblem[] {
  return [
    ...references.check([...key.path, "group"], readText(key, "group"), "group"),
    ...references.check([...key.path, "user"], readText(key, "user")?.toLowerCase(), "user"),
    ...checkRequestPolicy(key, references),
  ];
}

function checkRequestPolicy(item: Item, references: ReferenceChecker): FieldProblem[] {
  return references.check(
    [...item.path, "request_policy"],
    readText(item, "request_policy"),
    "request policy",
  );
}

/** One target may have several steps, with different conditions. */
function checkFallback(item: Item, references: ReferenceChecker, kind: "group" | "model"): FieldProblem[] {
  return itemsAt(item, "fallback").flatMap((step) =>
    references.check([...step.path, kind], readText(step, kind), kind),
  );
}

function wildcards(account: Item): FieldProblem[] {
  const models = account.value.models;
  if (!isRecord(models)) return [];
  return Object.entries(models).flatMap(([publicModel, upstreamModel]) => {
    if (typeof upstreamModel !== "string" || publicModel.endsWith("*") === upstreamModel.endsWith("*"))
      return [];
    return [
      {
        path: [...account.path, "models", publicModel],
        message:
          'has a * on one side only. Put a * at the end of both names, like "gpt-*": "gpt-*", or of neither.',
      },
    ];
  });
}

function plansWithoutUse(group: Item): FieldProblem[] {
  const billing = group.value.billing;
  if (!isRecord(billing) || billing.plans === undefined || billing.charge === "subscription") return [];
  return [
    {
      path: [...group.path, "billing", "plans"],
      message: "is allowed only with charge: subscription. Remove the field, or change charge.",
      onKey: true,
    },
  ];
}

function checkModelReferences(group: Item, field: "model_multipliers" | "model_prices"): FieldProblem[] {
  const billing = group.value.billing;
  const named = isRecord(billing) ? billing[field] : undefined;
  const models = group.value.models;
  if (!isRecord(named) || !Array.isArray(models)) return [];
  return Object.keys(named)
    .filter((model) => !models.includes(model))
    .map((model) => ({
      path: [...group.path, "billing", field, model],
      message: "is not among the group's models.",
      onKey: true,
    }));
}
