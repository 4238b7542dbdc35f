/** `apply --url`: a file that CI applies to a running gateway. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openCommandLine } from "../../src/cli/command-line.test-support.ts";
import { createServiceClient, type SignedInClient, signInAs } from "../support/console-client.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

const { folder, run, runOk, runFailing, json } = openCommandLine();

let gateway: RunningGateway;
let admin: SignedInClient;
let token: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  admin = await signInAs(gateway, "root@example.com", "admin");
  token = (await createServiceClient(gateway, "ci", ["config.apply", "keys.write"])).secret;
});
afterAll(() => gateway.stop());

function command(file: string, ...more: string[]): string[] {
  writeFileSync(join(folder(), "gateway.yaml"), file);
  writeFileSync(join(folder(), "token"), `${token}\n`);
  return ["apply", "gateway.yaml", "--url", gateway.url, "--token-file", "token", ...more];
}

const models = async () => (await admin.call("admin.models.list")).data.map(({ document }) => document.id);

test("shows the changes, applies them, and finds nothing to do the second time", async () => {
  const file = "models: [{ id: remote-1, interfaces: [chat] }]\n";
  expect(await runOk(...command(file, "--dry-run"))).toContain("Dry run");
  expect(await models()).not.toContain("remote-1");
  expect(await runOk(...command(file))).toContain("+ model remote-1");
  expect(await models()).toContain("remote-1");
  expect(await runOk(...command(file))).toContain("No changes");
});

test("replaces variables and files here, and reports missing ones with their line", async () => {
  writeFileSync(join(folder(), "name"), "remote-2\n");
  await runOk(...command(`models: [{ id: '\${file:./name}', interfaces: [chat] }]\n`));
  expect(await models()).toContain("remote-2");
  const err = await runFailing(...command(`models:\n  - interfaces: [chat]\n    id: \${MISSING}\n`));
  expect(err).toContain("gateway.yaml:3");
  expect(err).toContain("MISSING");
});

test("prints the line of what the token may not change, and the problems of the file", async () => {
  const file = "models: []\nusers:\n  - { email: eve@example.com, role: admin }\n";
  expect(await runFailing(...command(file))).toContain("gateway.yaml:3");
  expect(await runFailing(...command("groups: [{ name: g, models: [unknown-model] }]\n"))).toContain(
    "unknown-model",
  );
});

test("needs a destination for the secrets of new keys, and writes them there", async () => {
  const file = "keys: [{ name: remote, user: dev@example.com, group: default }]\n";
  expect(await runFailing(...command(file))).toContain("--secret-file");
  const { shown, secret_file } = await json(...command(file, "--secret-file", "secrets"));
  expect(shown).toMatchObject([{ name: "remote" }]);
  expect(readFileSync(secret_file, "utf8")).toStartWith("gwk_");
});

test("sends a token over https only, and names what is missing", async () => {
  const [, , , , ...rest] = command("models: []\n");
  const other = await run("apply", "gateway.yaml", "--url", "http://llm.example.com", ...rest);
  expect(other.err).toContain("https://");
  expect(await runFailing("apply", "gateway.yaml", "--url", gateway.url)).toContain("--token-file");
  writeFileSync(join(folder(), "token"), "gws_wrong\n");
  expect(await runFailing("apply", "gateway.yaml", "--url", gateway.url, "--token-file", "token")).toContain(
    "sign_in_required",
  );
});
