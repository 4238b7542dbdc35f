/**
 * Files and long bodies of the console's API, as an administrator or a service account may send them: no text holds the
 * event loop, and a file of an installation with 10,000 keys is applied.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { gatewayFile } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

setDefaultTimeout(600_000);

const PASSWORD = "password-of-the-administrator";
const MiB = 1024 * 1024;
const WARM_UP_RUNS = 3;

let target: AttackTarget;
let cookie: string;

beforeAll(async () => {
  const file = gatewayFile({}).replace(
    "users:",
    `users:\n  - { email: root@example.com, role: admin, password: ${PASSWORD} }`,
  );
  target = await startAttackTarget({ file });
  const signedIn = await post("/api/session", { email: "root@example.com", password: PASSWORD });
  cookie = (signedIn.headers.get("set-cookie") ?? "").split(";", 1)[0] ?? "";
  for (let run = 0; run < WARM_UP_RUNS; run++) {
    await post(PLAN, { text: "models: [a]" });
    await post(PLAN, { text: `models: [a] # ${"-".repeat(10_000)}` });
    await post(PRICES, { text: "models: [a]", dry_run: true });
    await post(MAPPINGS, { mappings: [] });
  }
});
afterAll(() => target.stop());

const PLAN = "/api/admin/config/plan";
const PRICES = "/api/admin/prices";
const MAPPINGS = "/api/admin/model-mappings";

function post(path: string, body: object | string): Promise<Response> {
  return fetch(target.url + path, {
    method: "POST",
    headers: { cookie: cookie ?? "", origin: target.url, "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

/** Sends a body and returns its response. No turn of the event loop may be long. */
async function attack(name: string, path: string, body: object | string) {
  const sent = typeof body === "string" ? body : JSON.stringify(body);
  let status = 0;
  let text = "";
  await measureAttack(name, target, {
    bytes: sent.length,
    async run() {
      const response = await post(path, sent);
      status = response.status;
      text = await response.text();
    },
  });
  return { status, text };
}

const fill = (bytes: number, unit: string) => unit.repeat(Math.floor(bytes / Buffer.byteLength(unit)));
const lines = (count: number, line: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => `${line(at)}\n`).join("");

/** Values that fill a body. */
const VALUES: Readonly<Record<string, (bytes: number) => string>> = {
  "a plain text": (bytes) => `"${fill(bytes, "a")}"`,
  "a text of escaped quotes": (bytes) => `"${fill(bytes, '\\"')}"`,
  "a text of escaped letters": (bytes) => `"${fill(bytes, "\\u00e9")}"`,
  "a text of U+0000": (bytes) => `"${fill(bytes, "\\u0000")}"`,
  "a text of three bytes a letter": (bytes) => `"${fill(bytes, "汉")}"`,
  "a number": (bytes) => fill(bytes, "1"),
  "a long exponent": (bytes) => `1e${fill(bytes, "1")}`,
  "white space": (bytes) => `${fill(bytes, " ")}1`,
  "long names": (bytes) => `{${lines(4_000, (at) => `"${at}${fill(bytes / 4_000 - 12, "a")}":1,`)}"a":1}`,
};

test.each([
  ["a configuration file", PLAN, limits.apiFileBodyBytesMax, "text"],
  ["model mappings", MAPPINGS, limits.apiBulkBodyBytesMax, "mappings"],
])("the longest body of %s, whatever is in it", async (name, path, bytesMax, field) => {
  for (const [what, build] of Object.entries(VALUES)) {
    const body = `{"${field}":${build(bytesMax - 100)}}`;
    expect(Buffer.byteLength(body)).toBeLessThanOrEqual(bytesMax);
    const { status } = await attack(`${name} with ${what}`, path, body);
    expect([200, 400]).toContain(status);
  }
  expect((await post(path, `{"${field}":"${fill(bytesMax, "a")}"}`)).status).toBe(413);
});

const BYTES = limits.apiFileBytesMax - 100;
/** Line breaks take two bytes of a body: as many lines as it may have. */
const fillLines = (line: string) =>
  line.repeat(
    Math.floor(Math.min(BYTES / line.length, (limits.apiFileBodyBytesMax - 200) / (line.length + 1))),
  );
const SHORT = 950;

/** Texts that are long, or short and deep, or repeat what they contain. */
const TEXTS: Readonly<Record<string, string>> = {
  "a million elements": `models: [${"a,".repeat(1_000_000)}]`,
  "a million lines": `models:\n${fillLines("- a\n")}`,
  "a text of a million lines": `name: |\n${fillLines(" a\n")}`,
  "a million comments": fillLines("# a\n"),
  "a long comment": `# ${fill(BYTES, "a")}`,
  "the most values": `models: [${"a,".repeat(limits.apiFileValuesMax - 100)}]`,
  "as many unknown fields": lines(limits.apiFileValuesMax - 100, (at) => `a${at}:`),
  "as many models": `models:\n${lines(limits.apiFileValuesMax / 4 - 100, (at) => `- { id: m${at}, interfaces: [chat] }`)}`,
  "many groups and many keys of unknown groups": `groups:\n${lines(10_000, (at) => `- { name: g${at} }`)}keys:\n${lines(25_000, (at) => `- { name: k${at}, group: h${at} }`)}`,
  "a policy for each of many keys": `request_policies:\n${lines(2_000, (at) => `- { name: p${at}, models: [m${at}] }`)}groups:\n${lines(2_000, (at) => `- { name: g${at} }`)}keys:\n${lines(10_000, (at) => `- { name: k${at}, group: g${at % 2_000}, request_policy: p${at % 2_000} }`)}`,
  "lists in lists": `a: ${"[".repeat(100_000)}`,
  "aliases of a long list": `a: &a [${"x,".repeat(5_000)}]\nmodels: [${"*a,".repeat(100)}]`,
  "short: elements": `models: [${"a,".repeat(SHORT / 2)}]`,
  "short: lists in lists": `models:\n${"- ".repeat(SHORT / 2)}`,
  "short: maps in maps": `models: ${"{a: ".repeat(SHORT / 5)}${"}".repeat(SHORT / 5)}`,
  "short: aliases": `a: &a [${"x,".repeat(600)}]\nmodels: [${"*a,".repeat(100)}]`,
  "short: errors": fill(SHORT, "}\n"),
};

test.each(Object.entries(TEXTS))("a file with %s", async (name, text) => {
  const { status, text: response } = await attack(`a file with ${name}`, PLAN, { text });
  expect([200, 413]).toContain(status);
  expect(response.length).toBeLessThan(24 * MiB);
});

test.each(["a million elements", "the most values"])("a price list with %s", async (name) => {
  const text = TEXTS[name]?.replace("models: ", "date: 2026-11-01\nmodels: ") ?? "";
  const { status } = await attack(`a price list with ${name}`, PRICES, { text, dry_run: true });
  expect(status).toBe(200);
});

test("a file with more values than the API accepts is rejected with their number", async () => {
  const response = await post(PLAN, { text: `models: [${"a,".repeat(limits.apiFileValuesMax + 1)}]` });
  const max = limits.apiFileValuesMax.toLocaleString("en-US");
  expect(await response.json()).toMatchObject({
    problems: [{ message: expect.stringContaining(`more than ${max} values`) }],
  });
});

test("a file with 10,000 keys of 5,000 users is planned and applied", async () => {
  const users = lines(5_000, (at) => `- { email: u${at}@example.com, groups: [default] }`);
  const keys = lines(
    10_000,
    (at) => `- { name: k${at}, group: default, user: u${at % 5_000}@example.com, limits: { rpm: 60 } }`,
  );
  const text = `users:\n${users}keys:\n${keys}`;
  const planned = JSON.parse((await attack("a plan of 10,000 keys", PLAN, { text })).text);
  expect(planned).toMatchObject({ problems: [] });
  expect(planned.changes).toHaveLength(15_000);
  const { status, text: applied } = await attack("an apply of 10,000 keys", "/api/admin/config/apply", {
    text,
    plan: planned.plan,
  });
  expect(status).toBe(200);
  expect(JSON.parse(applied).keys).toHaveLength(10_000);
  expect(JSON.parse((await attack("the same again", PLAN, { text })).text)).toMatchObject({ changes: [] });
});
