/** The guides of the page "Connect a tool" work exactly as printed. test/long has those of other packages. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { CLIENTS } from "../support/clients-page.ts";
import { GuidedTools } from "../support/guided-tools.ts";

setDefaultTimeout(120_000);

let tools: GuidedTools;
beforeAll(async () => {
  tools = await GuidedTools.open();
  for (const name of ["claude", "codex", "gemini"])
    tools.home.install(name, `${CLIENTS}/node_modules/.bin/${name}`);
});
afterAll(() => tools.stop());

test.each(["claudeCode", "codex", "geminiCli", "curl"] as const)("of %s", async (id) => {
  expect(await tools.follow(id)).toContain("built-in simulator");
});

test("of TypeScript", async () => {
  expect(await tools.follow("typescript", "node hello.mjs")).toContain("built-in simulator");
});
