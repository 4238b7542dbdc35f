/** The npm package, with `npx` and as an unpacked folder. */

import { afterAll, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import {
  artefact,
  cleanEnvironment,
  emptyFolder,
  expectWorking,
  run,
  startInstalled,
  VERSION,
} from "./support.ts";

const folder = emptyFolder();
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("npx runs the tarball without an install script", async () => {
  // A separate cache for what npx installs; the packages come from the cache of this machine or the registry.
  const env = { ...cleanEnvironment(), npm_config_ignore_scripts: "true" };
  const command = ["npx", "--yes", "--package", artefact(".tgz"), "model-gateway"];
  expect(run([...command, "--version"], { cwd: folder, env })).toContain(VERSION);
  const gateway = await startInstalled([...command, "start"], { cwd: folder, env, isGroup: true });
  await expectWorking(gateway, readFileSync(join(folder, "data", "demo.key"), "utf8"));
  await gateway.stop();
});

test("npm ci --omit=dev && npm start work in the unpacked package, without warnings", async () => {
  run(["tar", "xzf", artefact(".tgz"), "-C", folder]);
  const cwd = join(folder, "package");
  const installed = run(["npm", "ci", "--omit=dev"], { cwd });
  expect(installed).not.toMatch(/EBADENGINE|deprecated/);
  expect(run(["bin/model-gateway", "selftest"], { cwd })).not.toContain("✗");
  const gateway = await startInstalled(["npm", "start"], { cwd, isGroup: true });
  await expectWorking(gateway, readFileSync(join(cwd, "data", "demo.key"), "utf8"));
  await gateway.stop();
});
