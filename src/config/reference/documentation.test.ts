/** docs/configuration.md must match the schema, and the schema must match the parser. */

import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { CONFIGURED_ALERT_RULES } from "../../records/alert-rules.ts";
import { readSettings } from "../installation/environment.ts";
import { parseGatewayFile } from "../parse/file.ts";
import { gatewayFile } from "../schema/schema.ts";
import { fieldProblem, formatProblem, type Path } from "../state/problem.ts";
import { buildOutline, type OutlineField, type OutlineValue } from "./outline.ts";
import { allowedTexts, formatValue, withReference } from "./reference.ts";

const TEXT = readFileSync(resolve(import.meta.dir, "../../../docs/configuration.md"), "utf8");
const ENVIRONMENT = {
  OPENAI_API_KEY: "sk-upstream",
  AZURE_KEY: "azure-upstream",
  OPS_PASSWORD: "correct horse battery",
  CI_KEY: "0123456789-0123456789-0123456789",
  SMTP_PASSWORD: "a-password",
  ALERT_SECRET: "0123456789-0123456789",
};
const OUTLINE = buildOutline(gatewayFile);

function findProblems(text: string) {
  const parsed = parseGatewayFile(text, { fileName: "gateway.yaml", environment: ENVIRONMENT });
  return parsed.ok ? [] : parsed.problems;
}

test("every example in the documentation is accepted", () => {
  const examples = [...TEXT.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, text]) => text ?? "");
  expect(examples.length).toBeGreaterThan(1);
  for (const text of examples) expect(findProblems(text).map(formatProblem)).toEqual([]);
});

test("the tables in the documentation match the schema", () => {
  const lines = TEXT.split("\n");
  const made = withReference(TEXT, OUTLINE).split("\n");
  const at = made.findIndex((line, i) => line !== lines[i]);
  if (at !== -1 || lines.length !== made.length) {
    throw new Error(
      `docs/configuration.md differs from the schema in line ${at + 1}. Run: npm run docs:configuration`,
    );
  }
});

describe("completeness", () => {
  /** Field names such as `groups.limits.rpm`, through lists or not, from the JSON Schema that the library generates. */
  function fieldNames(schema: z.core.JSONSchema._JSONSchema | undefined, prefix: string): string[] {
    if (typeof schema !== "object") return [];
    const own = Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => [
      `${prefix}${name}`,
      ...fieldNames(inner, `${prefix}${name}.`),
    ]);
    const items = Array.isArray(schema.items) ? undefined : schema.items;
    return [...own, ...fieldNames(items, prefix), ...fieldNames(schema.additionalProperties, prefix)];
  }

  /** The first cells, and the links of the last cells, between the markers of one table. */
  function rowsUnder(name: string): { field: string; link: string | undefined }[] {
    const block = new RegExp(`<!-- fields: ${name} -->([\\s\\S]*?)<!-- end of fields -->`).exec(TEXT)?.[1];
    return [...(block ?? "").matchAll(/^\| `([^`]+)` \|.*\| ([^|]+) \|$/gm)].map(([, field, allowed]) => ({
      field: (field ?? "").replaceAll("[]", ""),
      link: /\]\(#([\w-]+)\)/.exec(allowed ?? "")?.[1],
    }));
  }

  function documented(table: string, prefix: string): string[] {
    return rowsUnder(table).flatMap(({ field, link }) => [
      `${prefix}${field}`,
      ...(link === undefined ? [] : documented(link, `${prefix}${field}.`)),
    ]);
  }

  test("the tables of the documentation contain every field of the file, and no other", () => {
    const schema = z.toJSONSchema(gatewayFile, { io: "input", unrepresentable: "any" });
    const names = fieldNames(schema, "");
    expect(names.length).toBeGreaterThan(150);
    const sections = Object.keys(schema.properties ?? {});
    const found = sections.flatMap((section) =>
      section === "registration" ? documented(section, "") : [section, ...documented(section, `${section}.`)],
    );
    expect(found.toSorted()).toEqual(names.toSorted());
  });
});

const LIMITS = { windows: [{ per: "1d", requests: 1, tokens: 1 }] };
const PRICE = { input: "1", long_context: { above: 1, input: "1" }, per_call: {}, tier: {} };
/** Contains every map of fields, each with its required fields, so that any one other field can be omitted. */
const LEAST = {
  server: {},
  telemetry: {},
  log: {},
  capture: {},
  retention: {},
  smtp: { enabled: false, host: "smtp.example.com", from: "gateway@example.com" },
  alerts: {
    webhooks: [{ name: "ops", url: "https://hooks.example.com" }],
    ...Object.fromEntries(CONFIGURED_ALERT_RULES.map(({ rule }) => [rule, {}])),
  },
  sign_in: {
    providers: [{ name: "corp", issuer: "https://login.example.com", client_id: "gateway", roles: {} }],
  },
  scim: { enabled: false, provider: "corp" },
  tool_sign_in: { claude_code: {} },
  usage_export: { webhooks: [{ name: "warehouse", url: "https://ingest.example.com" }] },
  models: [{ id: "fast", interfaces: ["chat"], price: PRICE, fallback: [{ model: "fast", when: ["busy"] }] }],
  accounts: [{ name: "one", kind: "openai", base_url: "https://up.example.com", limits: {}, profile: {} }],
  request_policies: [
    {
      name: "contractors",
      input_tokens: { max: 1_000 },
      output_tokens: { max: 16 },
      effort: { max: "low" },
      tools: { deny: ["web_search"] },
      inputs: {},
      force: {},
    },
  ],
  groups: [
    {
      name: "staff",
      models: ["fast"],
      billing: { model_prices: { fast: PRICE } },
      limits: LIMITS,
      group_limits: LIMITS,
      queue: {},
      fallback: [{ group: "staff", when: ["busy"] }],
    },
  ],
  plans: [{ name: "pro", windows: [{ per: "day", usd: "1" }] }],
  users: [{ email: "dev@example.com", limits: LIMITS, subscriptions: [{ plan: "pro" }] }],
  keys: [{ name: "ci", group: "staff", limits: LIMITS }],
  service_accounts: [
    { name: "billing", scopes: ["wallet.top_up"], bounds: { usd_per_call: "5", usd_per_day: "50" } },
  ],
};

interface Place {
  path: Path;
  field: OutlineField;
}

/** The path of each field in LEAST, present or not. */
function listPlaces(fields: readonly OutlineField[], path: Path): Place[] {
  return fields.flatMap((field) => {
    const at = [...path, field.name];
    return [{ path: at, field }, ...placesIn(field.value, at)];
  });
}

function placesIn(value: OutlineValue, path: Path): Place[] {
  if (value.kind === "map") return listPlaces(value.fields, path);
  if (value.kind === "list") return placesIn(value.of, [...path, 0]);
  return value.kind === "names" ? placesIn(value.of, [...path, "fast"]) : [];
}

const PLACES = listPlaces(OUTLINE, []);

/** LEAST with another value at a path; undefined removes it. */
function leastWith([first, ...rest]: Path, value: unknown, within: unknown = LEAST): unknown {
  if (first === undefined) return value;
  if (typeof first === "number") return [leastWith(rest, value, Array.isArray(within) ? within[first] : {})];
  const map = new Map(Object.entries(within ?? {}));
  map.set(first, leastWith(rest, value, map.get(first)));
  return Object.fromEntries([...map].filter(([, one]) => one !== undefined));
}

describe("omitted fields", () => {
  test("the minimal file is accepted and has every map of fields", () => {
    expect(findProblems(stringify(LEAST)).map(formatProblem)).toEqual([]);
    const isThere = ({ path }: Place) =>
      path.slice(0, -1).reduce<unknown>((value, part) => Object(value)[part], LEAST) !== undefined;
    expect(PLACES.filter((place) => !isThere(place)).map(({ path }) => fieldProblem(path))).toEqual([]);
  });

  test("a documented default is the default of the parser", () => {
    const documentedFields = PLACES.flatMap(({ path, field: { whenOmitted: leftOut } }) =>
      leftOut.kind === "value" ? [{ path, value: leftOut.value }] : [],
    );
    expect(documentedFields.length).toBeGreaterThan(30);
    for (const { path, value } of documentedFields) {
      const written = gatewayFile.parse(leastWith(path, parse(formatValue(value))));
      expect({ path, file: gatewayFile.parse(leastWith(path, undefined)) }).toEqual({ path, file: written });
    }
  });

  test("a field is required exactly if the table marks it", () => {
    for (const { path, field } of PLACES) {
      const without = gatewayFile.safeParse(leastWith(path, undefined));
      expect({ path, required: !without.success }).toEqual({
        path,
        required: field.whenOmitted.kind === "rejected",
      });
    }
  });

  test("the process listens on the documented address", () => {
    const settings = readSettings({ flags: {}, environment: {} });
    if (!settings.ok) throw new Error(settings.problems.join());
    const documentedFields = new Map(
      PLACES.map(({ path, field }) => [fieldProblem(path), field.whenOmitted]),
    );
    const { host, port } = settings.settings;
    expect(documentedFields.get("server.host")).toEqual({ kind: "words", words: `\`${host}\`` });
    expect(documentedFields.get("server.port")).toEqual({ kind: "words", words: `\`${port}\`` });
  });
});

describe("allowed values", () => {
  /** No rule accepts this value, and no rule is about another type. */
  const NEVER_RIGHT = "\u0007";

  function listLeaves(value: OutlineValue, path: Path): { path: Path; value: OutlineValue }[] {
    if (value.kind === "map") return [];
    if (value.kind === "list") return listLeaves(value.of, [...path, 0]);
    return value.kind === "names" ? listLeaves(value.of, [...path, "fast"]) : [{ path, value }];
  }

  function documentedValue(wrong: unknown, path: Path): string | undefined {
    return findProblems(stringify(leastWith(path, wrong))).find(({ field }) => field === fieldProblem(path))
      ?.message;
  }

  test("the table has the same wording as the error for an invalid value", () => {
    const leaves = PLACES.flatMap(({ path, field }) =>
      listLeaves(field.value, path).map((leaf) => ({ ...leaf, table: allowedTexts(field).join("; ") })),
    );
    expect(leaves.length).toBeGreaterThan(120);
    for (const { path, value, table } of leaves) {
      const shown = table.replaceAll("`", "");
      if (value.kind === "words") {
        expect(documentedValue(NEVER_RIGHT, path)).toContain(`Allowed: ${value.words.join(", ")}.`);
        expect(shown).toContain(value.words.join(", "));
      } else if (value.kind === "switch") {
        expect(documentedValue(NEVER_RIGHT, path)).toBe("must be true or false.");
        expect(shown).toContain("true, false");
      } else {
        expect(value.rules.length).toBe(1);
        expect(documentedValue(NEVER_RIGHT, path)).toBe(`must be ${value.rules[0]}.`);
        expect(shown).toContain(value.rules[0] ?? "");
      }
    }
  });
});
