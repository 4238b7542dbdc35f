import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { gatewayFile } from "../schema/schema.ts";
import { buildJsonSchema } from "./json-schema.ts";
import { buildOutline } from "./outline.ts";

const SCHEMA = buildJsonSchema(buildOutline(gatewayFile));
/** The library can also read JSON Schema: it validates with the generated schema as an editor would. */
const judge = z.fromJSONSchema(JSON.parse(JSON.stringify(SCHEMA)));

function problemsOf(yaml: string): string[] {
  return (judge.safeParse(parse(yaml)).error?.issues ?? []).map(({ path }) => path.join("."));
}

test("every whole file of the documentation is right in an editor, with what comes from the environment", () => {
  const page = readFileSync(resolve(import.meta.dir, "../../../docs/configuration.md"), "utf8");
  const files = [...page.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, text]) => text ?? "");
  expect(files.length).toBeGreaterThan(3);
  expect(files.flatMap(problemsOf)).toEqual([]);
});

describe("an editor marks", () => {
  test.each([
    ["an unknown field", "server: { prot: 1 }", ["server"]],
    ["a missing field", "keys: [{ name: ci }]", ["keys.0.group"]],
    ["a wrong word", "registration: opne", ["registration"]],
    ["a number out of bounds", "server: { port: 70000 }", ["server.port"]],
    ["a number where a text must be", "users: [{ email: a@example.com, balance: 10 }]", ["users.0.balance"]],
    ["a text where a list must be", "models: fast", ["models"]],
  ])("%s", (_, yaml, places) => {
    expect(problemsOf(yaml)).toEqual(places);
  });
});

test(`\${NAME} may stand for a word, a number and a text`, () => {
  const file = `server: { host: "\${HOST}", port: "\${PORT}" }\nregistration: \${REGISTRATION}`;
  expect(problemsOf(file)).toEqual([]);
});

test("an editor explains a field in plain words, and knows its default", () => {
  const { accounts } = Object(SCHEMA.properties);
  const { weight, base_url: baseUrl } = accounts.items.properties;
  expect(weight).toMatchObject({
    description: "Its share among accounts of one priority. Allowed: a whole number from 1 to 1000.",
    default: 1,
  });
  expect(baseUrl.description).toEndWith("Left out: required for `openai` and `azure`.");
  expect(JSON.stringify(SCHEMA)).not.toContain("](");
});
