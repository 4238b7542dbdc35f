import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import { parseGatewayFile } from "./file.ts";
import { formatProblem } from "./problem.ts";
import { gatewayFile } from "./schema.ts";

const TEXT = readFileSync(resolve(import.meta.dir, "../../docs/configuration.md"), "utf8");
const ENVIRONMENT = {
  OPENAI_API_KEY: "sk-upstream",
  AZURE_KEY: "azure-upstream",
  OPS_PASSWORD: "correct horse battery",
  CI_KEY: "0123456789-0123456789-0123456789",
  SMTP_PASSWORD: "a-password",
  ALERT_SECRET: "0123456789-0123456789",
};

/** Every name that may stand on the left of a colon. */
function fieldNames(schema: z.core.JSONSchema._JSONSchema): string[] {
  if (typeof schema === "boolean") return [];
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => [
    name,
    ...fieldNames(inner),
  ]);
  const items = Array.isArray(schema.items) || schema.items === undefined ? [] : fieldNames(schema.items);
  return [...own, ...items];
}

test("every example in the documentation is a file that is accepted", () => {
  const examples = [...TEXT.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, text]) => text ?? "");
  expect(examples.length).toBeGreaterThan(1);
  for (const text of examples) {
    const parsed = parseGatewayFile(text, { fileName: "configuration.md", environment: ENVIRONMENT });
    expect(parsed.ok ? [] : parsed.problems.map(formatProblem)).toEqual([]);
  }
});

test("every field of the file is in the documentation", () => {
  const names = new Set(fieldNames(z.toJSONSchema(gatewayFile, { io: "input", unrepresentable: "any" })));
  expect(names.size).toBeGreaterThan(40);
  const missing = [...names].filter((name) => !new RegExp(`[\`.]${name}[\`.]|^## ${name}$`, "m").test(TEXT));
  expect(missing).toEqual([]);
});
