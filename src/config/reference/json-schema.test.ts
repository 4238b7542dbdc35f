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

function findProblems(yaml: string): string[] {
  return (judge.safeParse(parse(yaml)).error?.issues ?? []).map(({ path }) => path.join("."));
}

test("an editor accepts every complete file of the documentation, including variables", () => {
  const page = readFileSync(resolve(import.meta.dir, "../../../docs/configuration.md"), "utf8");
  const files = [...page.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, text]) => text ?? "");
  expect(files.length).toBeGreaterThan(3);
  expect(files.flatMap(findProblems)).toEqual([]);
});

describe("an editor marks", () => {
  test.each([
    ["an unknown field", "server: { prot: 1 }", ["server"]],
    ["a missing field", "keys: [{ name: ci }]", ["keys.0.group"]],
    ["an invalid word", "registration: opne", ["registration"]],
    ["a number out of bounds", "server: { port: 70000 }", ["server.port"]],
    ["a number instead of a text", "users: [{ email: a@example.com, balance: 10 }]", ["users.0.balance"]],
    ["a text instead of a list", "models: fast", ["models"]],
  ])("%s", (_, yaml, places) => {
    expect(findProblems(yaml)).toEqual(places);
  });
});

test(`\${NAME} is allowed in place of a word, a number and a text`, () => {
  const file = `server: { host: "\${HOST}", port: "\${PORT}" }\nregistration: \${REGISTRATION}`;
  expect(findProblems(file)).toEqual([]);
});

test("an editor shows the description and the default of a field", () => {
  const { accounts } = Object(SCHEMA.properties);
  const { weight, base_url: baseUrl } = accounts.items.properties;
  expect(weight).toMatchObject({
    description:
      "The share of requests among accounts of the same priority. Allowed: a whole number from 1 to 1000.",
    default: 1,
  });
  expect(baseUrl.description).toEndWith(
    "Default: that of the `vendor` or of the `region`, else required for `openai` and `azure`; `https://api.anthropic.com` for `anthropic`, `https://generativelanguage.googleapis.com` for `gemini`.",
  );
  expect(JSON.stringify(SCHEMA)).not.toContain("](");
});
