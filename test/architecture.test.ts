/** The structure of the code: imports point down, no cycles, files and folders of a readable size. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { ENDPOINTS } from "../src/protocols/endpoints.ts";
import { INTERFACES } from "../src/records/interfaces.ts";
import { BASE, LAYERS, OTHER_PROGRAMS } from "./architecture/layers.ts";
import { withLayersTable } from "./architecture/layers-table.ts";
import { createNodeName, layerName, ROOT, readSources, SRC } from "./architecture/source-graph.ts";

/** Most tests read all sources, which takes seconds on a busy machine. */
setDefaultTimeout(60_000);

const LINES_MAX = 400;

const sources = readSources("src");
const production = sources.filter(({ isTest }) => !isTest);
const layers = new Map(LAYERS.map((layer) => [layer.name, layer]));

test("every folder of src/ belongs to a layer", () => {
  const names = new Set(sources.map(({ path }) => layerName(path)));
  expect([...names].filter((name) => !layers.has(name))).toEqual([]);
});

test("layers depend only on layers below them", () => {
  const order = LAYERS.map(({ name }) => name);
  const upward = LAYERS.flatMap(({ name, mayImport }) =>
    mayImport === "everything"
      ? []
      : mayImport.filter((to) => order.indexOf(to) <= order.indexOf(name)).map((to) => `${name} → ${to}`),
  );
  expect(upward).toEqual([]);
});

test("no import points against the direction of dependencies", () => {
  const wrong = production.flatMap(({ path, imports }) => {
    const from = layerName(path);
    const mayImport = layers.get(from)?.mayImport ?? [];
    if (mayImport === "everything") return [];
    return imports
      .filter((to) => !to.startsWith(SRC) || ![from, BASE, ...mayImport].includes(layerName(to)))
      .map((to) => `${relative(ROOT, path)} imports ${relative(ROOT, to)}`);
  });
  expect(wrong).toEqual([]);
});

test("the other programs import only allowed layers", () => {
  const wrong = Object.entries(OTHER_PROGRAMS).flatMap(([folder, allowed]) =>
    readSources(folder)
      .filter(({ isTest }) => !isTest)
      .flatMap(({ path, imports }) =>
        imports
          .filter((to) => to.startsWith(SRC) && !allowed.includes(layerName(to)))
          .map((to) => `${relative(ROOT, path)} imports ${relative(ROOT, to)}`),
      ),
  );
  expect(wrong).toEqual([]);
});

test("the table of layers in ARCHITECTURE.md is up to date (npm run docs:architecture)", () => {
  const page = readFileSync(join(ROOT, "ARCHITECTURE.md"), "utf8");
  expect(page).toBe(withLayersTable(page));
});

test.each(["src", "console", "release", "simulator"])("no file of %s imports itself in a cycle", (folder) => {
  const files = readSources(folder).filter(({ isTest }) => !isTest);
  const edges = new Map(files.map(({ path, imports }) => [path, new Set(imports)]));
  expect(findCycles(edges).map((cycle) => cycle.map((path) => relative(ROOT, path)))).toEqual([]);
});

test("no subfolder imports itself in a cycle", () => {
  const nodeName = createNodeName(production);
  const edges = new Map<string, Set<string>>();
  for (const { path, imports } of production) {
    const from = nodeName(path);
    const targets = edges.get(from) ?? new Set();
    edges.set(from, targets);
    for (const to of imports) {
      if (!to.startsWith(SRC)) continue;
      const node = nodeName(to);
      if (node !== from) targets.add(node);
    }
  }
  expect(findCycles(edges)).toEqual([]);
});

/** Billing still has one implementation per engine. */
const ENGINE_BRANCHES = /^(store\/engine|billing)\//;

test("only store/engine/ branches on the database engine", () => {
  const branching = production
    .map(({ path, text }) => ({ file: relative(SRC, path), text }))
    .filter(
      ({ file, text }) => !ENGINE_BRANCHES.test(file) && /\.engine [=!]==|"(sqlite|postgres)"/.test(text),
    );
  expect(branching.map(({ file }) => file)).toEqual([]);
});

/** Files and folders that compare with the name of an endpoint, interface or dialect, and why. */
const NAME_COMPARISONS: Readonly<Record<string, string>> = {
  "accounts/": "kinds of accounts choose the form of each dialect",
  "protocols/shared/json-body.ts": "the form of a vendor names the API whose bodies it changes",
  "policy/pricing.ts": "the policy is below the endpoints; only images have a price by the piece",
  "billing/write-behind/reserved-settlements.ts":
    "billing is below the endpoints; a usage row names its interface",
  "gateway/translation/translation-worker.ts": "the name of a job",
};

test("what differs between endpoints and dialects is a trait, not a comparison with their names", () => {
  const names = new Set<string>([...INTERFACES, ...ENDPOINTS.map(({ name }) => name)]);
  const comparing = production.flatMap(({ path, text }) => {
    const file = relative(SRC, path);
    // A dialect recognizes what it has written itself.
    const ownName = /^protocols\/(\w+)\//.exec(file)?.[1];
    return [...text.matchAll(/(\S+) [=!]== "([\w.]+)"|case "([\w.]+)":/g)]
      .filter(([, left, compared, matched]) => {
        const name = compared ?? matched ?? "";
        return names.has(name) && name !== ownName && !left?.endsWith("kind");
      })
      .map(([comparison]) => `${file}: ${comparison}`);
  });
  const allowed = Object.keys(NAME_COMPARISONS);
  expect(comparing.filter((one) => !allowed.some((path) => one.startsWith(path)))).toEqual([]);
  expect(allowed.filter((path) => !comparing.some((one) => one.startsWith(path)))).toEqual([]);
});

/** Files outside `accounts/kinds/` that name a kind of account, with the reason. */
const KIND_NAMES: Readonly<Record<string, string>> = {
  "src/records/account.ts": "the list of the names",
  "src/cli/import/upstreams.ts": "other gateways have names of their own for upstreams",
  "src/config/first-run/demo.ts": "the demo has an account of the simulator",
  "src/console-api/admin/account-test.ts": "a result of the test, not the kind of the account",
  "console/pages/admin/accounts/test-call.tsx": "a result of the test, not the kind of the account",
  "src/protocols/messages/anthropic-api.ts": "the name of an API, which several kinds have",
  "src/protocols/shared/endpoint.ts": "the names of APIs, which several kinds have",
  "src/money/hosted-prices.ts": "the names of models at two vendors",
  "src/telemetry/attribute-names.ts": "the names that OpenTelemetry has for vendors",
  "console/text/en/admin-accounts.ts": "the texts of the console",
  "console/text/zh/admin-accounts.ts": "the texts of the console",
};

test("only accounts/kinds/ knows the kinds of accounts by name", () => {
  // `openai` and `gemini` are names of other things, too: only their comparisons are found.
  const named =
    /"(?:azure|anthropic|bedrock|vertex|simulator)"|^\s*(?:azure|anthropic|bedrock|vertex|simulator):|kind\)? [!=]== "(?:openai|gemini)"/m;
  const files = [...production, ...readSources("console").filter(({ isTest }) => !isTest)]
    .map(({ path, text }) => ({ file: relative(ROOT, path), text }))
    .filter(({ file, text }) => !file.startsWith("src/accounts/kinds/") && named.test(text));
  expect(files.map(({ file }) => file).sort()).toEqual(Object.keys(KIND_NAMES).sort());
});

test(`no source file is longer than ${LINES_MAX} lines`, () => {
  const long = production
    .map(({ path, text }) => ({ file: relative(SRC, path), lines: text.split("\n").length }))
    .filter(({ lines }) => lines > LINES_MAX);
  expect(long).toEqual([]);
});

function findCycles(edges: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const state = new Map<string, "open" | "done">();
  const cycles: string[][] = [];
  const visit = (node: string, trail: readonly string[]): void => {
    if (state.get(node) === "done") return;
    if (state.get(node) === "open") {
      cycles.push([...trail.slice(trail.indexOf(node)), node]);
      return;
    }
    state.set(node, "open");
    for (const next of edges.get(node) ?? []) visit(next, [...trail, node]);
    state.set(node, "done");
  };
  for (const node of edges.keys()) visit(node, []);
  return cycles;
}
