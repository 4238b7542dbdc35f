/**
 * Checks rules that span several places of the file: references, duplicates, and fields that only one kind of
 * account has. Reads the raw tree instead of the parsed file, so that one invalid value does not hide a wrong
 * reference.
 */

import { type FieldProblem, nearest, type Path } from "../state/problem.ts";

/** Names that exist in the database: a file may define a part of the installation and refer to the rest. */
export interface KnownNames {
  models: ReadonlySet<string>;
  accounts: ReadonlySet<string>;
  groups: ReadonlySet<string>;
  plans: ReadonlySet<string>;
  /** E-mail addresses in lower case. */
  users: ReadonlySet<string>;
}

export const NOTHING_KNOWN: KnownNames = {
  models: new Set(),
  accounts: new Set(),
  groups: new Set(),
  plans: new Set(),
  users: new Set(),
};

/** Values from the environment must not appear in an error message. Only the caller knows which values those are. */
export interface CheckOptions {
  show(path: Path, value: string): string;
  mayShow(path: Path): boolean;
}

interface Names {
  noun: string;
  all: ReadonlySet<string>;
  /** The names that an error message may suggest. */
  open: readonly string[];
  /** The name that was probably intended. */
  near(name: string): string | null;
}

/** Each suggestion compares a name with all others. The first few are enough to find the cause of a thousand errors. */
const PROPOSALS_MAX = 20;

interface Item {
  path: Path;
  value: Readonly<Record<string, unknown>>;
}

export function checkTogether(tree: unknown, known: KnownNames, discretion: CheckOptions): FieldProblem[] {
  const models = readItems(tree, "models");
  const accounts = readItems(tree, "accounts");
  const groups = readItems(tree, "groups");
  const plans = readItems(tree, "plans");
  const users = readItems(tree, "users");
  const keys = readItems(tree, "keys");

  const collectNames = (noun: string, stored: ReadonlySet<string>, items: Item[], field: string): Names => {
    const named = items.flatMap((item) => {
      const name = readText(item, field);
      if (name === undefined) return [];
      return {
        name: noun === "user" ? name.toLowerCase() : name,
        open: discretion.mayShow([...item.path, field]),
      };
    });
    const open = [...stored, ...named.filter((candidate) => candidate.open).map(({ name }) => name)];
    let proposals = 0;
    return {
      noun,
      all: new Set([...stored, ...named.map(({ name }) => name)]),
      open,
      near: (name) => (proposals++ < PROPOSALS_MAX ? nearest(name, open) : null),
    };
  };
  const knownModels = collectNames("model", known.models, models, "id");
  const knownAccounts = collectNames("account", known.accounts, accounts, "name");
  const knownGroups = collectNames("group", known.groups, groups, "name");
  const knownPlans = collectNames("plan", known.plans, plans, "name");
  const knownUsers = collectNames("user", known.users, users, "email");

  return [
    ...findDuplicates(models, "id", (item) => readText(item, "id")),
    ...findDuplicates(accounts, "name", (item) => readText(item, "name")),
    ...findDuplicates(groups, "name", (item) => readText(item, "name")),
    ...findDuplicates(plans, "name", (item) => readText(item, "name")),
    ...findDuplicates(users, "email", (item) => readText(item, "email")?.toLowerCase()),
    ...findDuplicates(
      keys,
      "name",
      keyIdentity,
      "is used twice for this user; a key is known by its user and its name.",
    ),
    ...findDuplicates(
      keys,
      "secret",
      (item) => readText(item, "secret"),
      "is the secret of two keys; each needs its own.",
    ),
    ...accounts.flatMap(accountFields),
    ...accounts.flatMap(wildcards),
    ...groups.flatMap((group) => [
      ...references(group, "models", knownModels, discretion),
      ...references(group, "accounts", knownAccounts, discretion),
      ...checkModelReferences(group, "model_multipliers"),
      ...checkModelReferences(group, "model_prices"),
      ...plansWithoutUse(group),
    ]),
    ...groups
      .flatMap((group) => itemsAt(group, "billing"))
      .flatMap((billing) => references(billing, "plans", knownPlans, discretion)),
    ...users.flatMap((user) => {
      const subscriptions = itemsAt(user, "subscriptions");
      return [
        ...references(user, "groups", knownGroups, discretion),
        ...findDuplicates(subscriptions, "plan", subscriptionIdentity, SUBSCRIBED_TWICE),
        ...subscriptions.flatMap((item) =>
          reference([...item.path, "plan"], readText(item, "plan"), knownPlans, discretion),
        ),
      ];
    }),
    ...keys.flatMap((key) => [
      ...reference([...key.path, "group"], readText(key, "group"), knownGroups, discretion),
      ...reference([...key.path, "user"], readText(key, "user")?.toLowerCase(), knownUsers, discretion),
    ]),
  ];
}

function keyIdentity(item: Item): string | undefined {
  const name = readText(item, "name");
  return name === undefined
    ? undefined
    : JSON.stringify([readText(item, "user")?.toLowerCase() ?? null, name]);
}

const SUBSCRIBED_TWICE = "stands twice for this user; say when each of the two starts.";

function subscriptionIdentity(item: Item): string | undefined {
  const plan = readText(item, "plan");
  return plan === undefined ? undefined : JSON.stringify([plan, readText(item, "starts") ?? null]);
}

function findDuplicates(
  items: Item[],
  field: string,
  identity: (item: Item) => string | undefined,
  message = "is used twice; a name may stand only once.",
): FieldProblem[] {
  const seen = new Set<string>();
  return items.flatMap((item) => {
    const id = identity(item);
    if (id === undefined) return [];
    if (seen.has(id)) return [{ path: [...item.path, field], message }];
    seen.add(id);
    return [];
  });
}

/** The kind of an account determines which fields are required and which are not allowed. */
function accountFields(account: Item): FieldProblem[] {
  const kind = readText(account, "kind");
  const has = (field: string) => Object.hasOwn(account.value, field);
  const at = (field: string, message: string): FieldProblem => ({ path: [...account.path, field], message });
  const problems: FieldProblem[] = [];
  const { websocket, interfaces } = account.value;
  if (websocket === true && Array.isArray(interfaces) && !interfaces.includes("responses")) {
    problems.push(
      at(
        "websocket",
        "is for responses, which is not among the account's interfaces. Add it, or write false.",
      ),
    );
  }
  if (kind === "simulator") {
    for (const field of ["base_url", "credential", "private_network"].filter(has)) {
      problems.push(at(field, "is not for kind simulator, which is built in. Remove the field."));
    }
    return problems;
  }
  if ((kind === "openai" || kind === "azure") && !has("base_url")) {
    problems.push(
      at("base_url", "is missing. It is the upstream's address, like https://api.openai.com/v1."),
    );
  }
  if (kind === "openai" && has("api_version")) {
    problems.push(at("api_version", "is only for kind azure. Remove the field."));
  }
  return problems;
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
          'has a * on one side only. Write it at the end of both, like "gpt-*": "gpt-*", or of neither.',
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
      message: "is only for charge: subscription. Remove the field, or charge subscriptions.",
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

function references(item: Item, field: string, names: Names, discretion: CheckOptions): FieldProblem[] {
  const list = item.value[field];
  if (!Array.isArray(list)) return [];
  const seen = new Set<string>();
  return list.flatMap((name: unknown, i) => {
    if (typeof name !== "string") return [];
    const path = [...item.path, field, i];
    if (seen.has(name)) {
      return [{ path, message: `names the ${names.noun} ${discretion.show(path, name)} a second time.` }];
    }
    seen.add(name);
    return reference(path, name, names, discretion);
  });
}

function reference(
  path: Path,
  name: string | undefined,
  { noun, all, open, near }: Names,
  discretion: CheckOptions,
): FieldProblem[] {
  if (name === undefined || all.has(name)) return [];
  const close = discretion.mayShow(path) ? near(name) : null;
  const hint =
    close !== null
      ? ` Did you mean "${close}"?`
      : open.length === 0
        ? ` Add it to ${noun}s.`
        : ` Known: ${open.slice(0, 10).join(", ")}${open.length > 10 ? ", …" : ""}.`;
  return [{ path, message: `there is no ${noun} ${discretion.show(path, name)}.${hint}` }];
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function readItems(tree: unknown, section: string): Item[] {
  const list = isRecord(tree) ? tree[section] : undefined;
  if (!Array.isArray(list)) return [];
  return list.flatMap((value: unknown, i) => (isRecord(value) ? [{ path: [section, i], value }] : []));
}

/** The items of a field: its entries, or the field itself if it is a map. */
function itemsAt({ path, value }: Item, field: string): Item[] {
  const inner = value[field];
  if (isRecord(inner)) return [{ path: [...path, field], value: inner }];
  return readItems(value, field).map((item) => ({ ...item, path: [...path, ...item.path] }));
}

function readText(item: Item, field: string): string | undefined {
  const value = item.value[field];
  return typeof value === "string" ? value : undefined;
}
