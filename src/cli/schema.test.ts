import { expect, test } from "bun:test";
import { openCommandLine } from "./command-line.test-support.ts";

const { done } = openCommandLine();

test("model-gateway schema prints a JSON Schema, without a store or a data folder", async () => {
  const schema = JSON.parse(await done("schema"));
  expect(schema).toMatchObject({ title: "gateway.yaml", type: "object" });
  expect(Object.keys(schema.properties)).toContain("groups");
});
