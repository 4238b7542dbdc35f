/** `init` without a terminal, and beside files that exist. `init.system.test.ts` has its dialogue. */

import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { openCommandLine } from "./command-line.test-support.ts";

const { folder, runFailing } = openCommandLine();

test("without a terminal it fails with a message, and writes nothing", async () => {
  const message = await runFailing("init");
  expect(message).toContain("standard input is not a terminal");
  expect(message).toContain("model-gateway apply gateway.yaml");
  expect(existsSync(join(folder(), "gateway.yaml"))).toBe(false);
  expect(existsSync(join(folder(), "data"))).toBe(false);
});
