import { expect, test } from "bun:test";
import { openCommandLine } from "./command-line.test-support.ts";

const { runOk: done } = openCommandLine();

test("model-gateway schema prints a JSON Schema without a database or a data folder", async () => {
  const schema = JSON.parse(await done("schema"));
  expect(schema).toMatchObject({ title: "gateway.yaml", type: "object" });
  expect(Object.keys(schema.properties)).toContain("groups");
});
