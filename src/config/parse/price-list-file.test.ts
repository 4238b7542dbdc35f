import { expect, test } from "bun:test";
import { listChanges, parsePriceList } from "./price-list-file.ts";

async function read(text: string) {
  const parsed = parsePriceList(text, { fileName: "prices.yaml" }, null);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  return parsed.list;
}

const YAML = `
date: 2026-11-01
models:
  gpt-x: { price: { input: "1", images: { 1x1: "2" } }, context_tokens: 100 }
  org/other: { price: { request: "0.01" }, max_output_tokens: 7 }
`;

test("a price list can be YAML or JSON", async () => {
  const list = await read(YAML);
  expect(list).toEqual({
    date: "2026-11-01",
    models: {
      "gpt-x": { price: { input: "1", images: { "1x1": "2" } }, contextTokens: 100, outputTokensMax: null },
      "org/other": { price: { request: "0.01" }, contextTokens: null, outputTokensMax: 7 },
    },
  });
  const json = JSON.stringify({
    date: "2026-11-01",
    models: {
      "gpt-x": { price: { input: "1", images: { "1x1": "2" } }, context_tokens: 100 },
      "org/other": { price: { request: "0.01" }, max_output_tokens: 7 },
    },
  });
  expect(await read(json)).toEqual(list);
});

test.each([
  ["no date", "models: {}", "date"],
  ["an invalid date", "date: 2026-02-31\nmodels: {}", "date"],
  [
    "a price as a number",
    "date: 2026-11-01\nmodels: { m: { price: { input: 1.5 } } }",
    "models.m.price.input",
  ],
  ["a negative price", 'date: 2026-11-01\nmodels: { m: { price: { input: "-1" } } }', "models.m.price.input"],
  [
    "seven decimals",
    'date: 2026-11-01\nmodels: { m: { price: { input: "0.0000001" } } }',
    "models.m.price.input",
  ],
  ["no price", "date: 2026-11-01\nmodels: { m: { price: {} } }", "models.m.price"],
  ["an unknown unit", 'date: 2026-11-01\nmodels: { m: { price: { inputs: "1" } } }', "models.m.price.inputs"],
])("%s is rejected with its field", async (_, text, field) => {
  const parsed = parsePriceList(text, { fileName: "prices.yaml" }, null);
  expect(parsed.ok ? [] : parsed.problems.map((problem) => problem.field)).toEqual([field]);
});

test("only differences are changes", async () => {
  const before = await read(YAML);
  expect(listChanges(before, before)).toEqual([]);
  expect(listChanges(null, before).map(({ kind, what }) => `${kind} ${what}`)).toEqual([
    "create price list",
    "create price of gpt-x",
    "create price of org/other",
  ]);
  expect(listChanges(before, await read(YAML.replace("100", "9").replace(/ {2}org.*\n/, "")))).toEqual([
    { kind: "change", what: "price of gpt-x", fields: [{ field: "context_tokens", from: "100", to: "9" }] },
    { kind: "remove", what: "price of org/other", fields: [] },
  ]);
});
