/**
 * Every place of every body of the console's API grows to the largest body. The bodies come from the schemas of the
 * operations, so that a new operation or field is tried automatically. No turn of the event loop may be long, and no
 * response may be much longer than the body.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { z } from "zod";
import { limits } from "../../../src/config/limits/product-limits.ts";
import type { ConsoleRoute } from "../../../src/console-api/http/route.ts";
import { ROUTES, type RouteName } from "../../../src/console-api/routes.ts";
import { toJsonSchema } from "../../../src/openapi.ts";
import { buildPath } from "../../support/console-client.ts";
import { gatewayFile } from "../../support/running-gateway.ts";
import { type AttackTarget, measureTurns, startAttackTarget } from "../attack-setup.ts";
import { isObject, listGrowthCases } from "./grow.ts";
import type { JsonDocument } from "./sample.ts";

setDefaultTimeout(600_000);

const PASSWORD = "password-of-the-administrator";
/** A bulk body may be longer; its number of values is reached with this. */
const BULK_BYTES = 2 * 1024 * 1024;
/** JSON strings may need escapes in the response, and a preview lists several fields of each entry. */
const RESPONSE_SHARE_MAX = 8;
const WARM_UP_RUNS = 3;

let target: AttackTarget;
let cookie: string;

beforeAll(async () => {
  const file = gatewayFile({}).replace(
    "users:",
    `users:\n  - { email: root@example.com, role: admin, password: ${PASSWORD} }`,
  );
  target = await startAttackTarget({ file });
  const signedIn = await fetch(`${target.url}/api/session`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: target.url },
    body: JSON.stringify({ email: "root@example.com", password: PASSWORD }),
  });
  expect(signedIn.status).toBe(200);
  cookie = (signedIn.headers.get("set-cookie") ?? "").split(";", 1)[0] ?? "";
});
afterAll(() => target.stop());

/** What exists, by the part of the path that lists it. */
const NAMES: Readonly<Record<string, string>> = { accounts: "sim", groups: "default", models: "fast-chat" };

async function send({ method, path }: ConsoleRoute, body: string) {
  const [, list = "", param = ""] = /(\w+)\/:(\w+)/.exec(path) ?? [];
  const response = await fetch(target.url + buildPath(path, { [param]: NAMES[list] ?? "1" }), {
    method,
    headers: { cookie, origin: target.url, "content-type": "application/json" },
    body,
  });
  return { status: response.status, text: await response.text() };
}

/** Values that pass the rules of fields, so that the work behind the schema is tried as well. */
const VALUES: Readonly<Record<string, unknown>> = {
  account: "sim",
  accounts: ["sim"],
  add: ["default"],
  amount: "1",
  base_url: "https://127.0.0.1:1/v1",
  email: "ada@example.com",
  for: "5m",
  group: "default",
  groups: ["default"],
  host: "mail.example.com",
  interfaces: ["chat"],
  model: "fast-chat",
  models: ["fast-chat"],
  networks: ["10.0.0.0/8"],
  over: "5m",
  remove: [],
  request: '{"model":"fast-chat","messages":[{"role":"user","content":"Hello"}]}',
  text: "models: []",
  time_zone: "UTC",
  url: "https://example.com/hook",
  upstream_model: "sim-fast",
  usd: "1",
};

/** A document that has every field of a schema once. */
function buildSample(schema: unknown, name = ""): unknown {
  if (!isObject(schema)) return null;
  if (schema.const !== undefined) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  const [branches] = [schema.anyOf, schema.oneOf, schema.allOf].filter(Array.isArray);
  if (branches !== undefined) return buildSample(branches.find(isRepeating) ?? branches[0], name);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  const value = VALUES[name];
  if (isOfType(value, type)) return value;
  switch (type) {
    case "object":
      return isObject(schema.properties)
        ? Object.fromEntries(
            Object.entries(schema.properties).map(([key, member]) => [key, buildSample(member, key)]),
          )
        : { a: buildSample(schema.additionalProperties) };
    case "array":
      return [buildSample(schema.items)];
    case "boolean":
      return true;
    case "string":
      // A name, a price and a factor.
      return "1";
    default:
      return Math.max(16, Number(schema.minimum ?? 0));
  }
}

function isRepeating(schema: unknown): boolean {
  return isObject(schema) && (schema.type === "object" || schema.type === "array");
}

function isOfType(value: unknown, type: unknown): boolean {
  return Array.isArray(value) ? type === "array" : value !== undefined && typeof value === type;
}

const BODIES = (Object.entries(ROUTES) as [RouteName, ConsoleRoute][]).flatMap(
  ([name, route]): [RouteName, ConsoleRoute, JsonDocument][] => {
    if (route.body instanceof z.ZodUndefined) return [];
    const sample = buildSample(toJsonSchema(route.body, { io: "input", unrepresentable: "any" }));
    return isObject(sample) && Object.keys(sample).length > 0 ? [[name, route, sample]] : [];
  },
);

test("the operations with a body are known", () => {
  expect(BODIES.length).toBeGreaterThan(45);
});

test.each(BODIES)("%s", async (name, route, sample) => {
  const bytes = Math.min(route.bodyBytesMax - 4_096, BULK_BYTES);
  const cases = listGrowthCases(sample);
  for (let run = 0; run < WARM_UP_RUNS; run++) await send(route, JSON.stringify(sample));
  const long: string[] = [];
  await measureTurns(`${cases.length} bodies of ${name}`, target, {
    bytes: bytes * cases.length,
    async run() {
      for (const { place, variant, build } of cases) {
        const body = build(bytes);
        const { status, text } = await send(route, body);
        expect(status).toBeLessThan(500);
        if (text.length > RESPONSE_SHARE_MAX * Buffer.byteLength(body))
          long.push(`${place}, ${variant}: ${text.length} bytes`);
      }
    },
  });
  expect(long).toEqual([]);
});

/** Files that are short as bodies, and long for what reads YAML. */
const FILES: Readonly<Record<string, string>> = {
  "20,000 models that are texts": `models: [${"a,".repeat(20_000)}]`,
  "1,600 models": `models: [${Array.from({ length: 1_600 }, (_, at) => `{ id: m${at}, interfaces: [chat] }`)}]`,
  "30,000 aliases": `a: &a [x]\nmodels: [${"*a,".repeat(30_000)}]`,
};

test.each(Object.entries(FILES))("a file with %s", async (name, text) => {
  const route = ROUTES["admin.config.plan"];
  for (let run = 0; run < WARM_UP_RUNS; run++)
    await send(route, JSON.stringify({ text: `models: [${"a,".repeat(1_000)}]` }));
  await measureTurns(`a file with ${name}`, target, {
    bytes: text.length,
    async run() {
      expect((await send(route, JSON.stringify({ text }))).status).toBe(200);
    },
  });
});

test("a body with more values than its operation accepts is rejected with their number", async () => {
  const count = (values: number) => `{"name":[${"1,".repeat(values - 3)}1]}`;
  const { body, ...forms } = ROUTES["tokens.create"];
  const route = { ...forms, body };
  expect((await send(route, count(limits.apiValuesMax))).text).not.toContain("JSON values");
  const rejected = await send(route, count(limits.apiValuesMax + 2));
  expect(rejected.status).toBe(400);
  expect(rejected.text).toContain(`more than ${limits.apiValuesMax.toLocaleString("en-US")} JSON values`);
  const bulk = await send(ROUTES["admin.models.map"], count(limits.apiBulkValuesMax + 2));
  expect(bulk.text).toContain(`more than ${limits.apiBulkValuesMax.toLocaleString("en-US")} JSON values`);
});
