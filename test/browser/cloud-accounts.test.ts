/** An administrator adds accounts of Amazon Bedrock and Google Vertex AI in a real browser. */

import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { listAccounts } from "../../src/store/policy/accounts.ts";
import { PROJECT, serviceAccountFile } from "../cloud/cloud-gateway.ts";
import { eventually } from "../support/eventually.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, type Page, PHONE_WIDTH, startConsole } from "./browser.ts";

// The console is built and a browser starts first.
setDefaultTimeout(90_000);

let console: ConsoleUnderTest;

beforeAll(async () => {
  console = await startConsole();
});
afterAll(() => console.stop());
afterEach(async () => {
  expect(console.complaints()).toEqual([]);
  await console.closePages();
});

const KEY_FILE = serviceAccountFile({ token_uri: "https://oauth2.googleapis.com/token" });

function openAccounts(looks = {}): Promise<Page> {
  return console.openAs("ops@example.com", "admin", "/admin/accounts", looks);
}

async function stored(name: string) {
  const accounts = await listAccounts(console.gateway.installation.db);
  return accounts.find((account) => account.name === name);
}

test("a Vertex AI account takes its key from a file", async () => {
  const page = await openAccounts();
  await page.getByRole("button", { name: "Add account" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("vertex-1");
  await dialog.getByLabel("Type").selectOption("vertex");
  expect(await dialog.getByLabel("Region").inputValue()).toBe("global");
  await dialog.getByLabel("Region").fill("europe-west1");
  const buffer = Buffer.from(KEY_FILE);
  await dialog
    .getByLabel("Choose key file")
    .setInputFiles({ name: "key.json", mimeType: "application/json", buffer });
  // The browser reads the file after the event.
  const keyField = dialog.getByLabel("Service account key (JSON)");
  await eventually(async () => (await keyField.inputValue()).includes(PROJECT));
  expect(await axeFindings(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Add account" }).click();
  await page.getByRole("heading", { level: 1, name: "vertex-1" }).waitFor();
  expect(await stored("vertex-1")).toMatchObject({
    kind: "vertex",
    region: "europe-west1",
    baseUrl: "https://europe-west1-aiplatform.googleapis.com",
    interfaces: ["messages", "gemini"],
  });
  expect((await stored("vertex-1"))?.sealedCredential).not.toContain("PRIVATE");
  expect(await page.content()).not.toContain("PRIVATE KEY");
});

test("a key file that is not a service account is rejected beside its field", async () => {
  const page = await openAccounts();
  await page.getByRole("button", { name: "Add account" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("vertex-2");
  await dialog.getByLabel("Type").selectOption("vertex");
  await dialog.getByLabel("Service account key (JSON)").fill('{"type":"authorized_user"}');
  await dialog.getByRole("button", { name: "Add account" }).click();
  await dialog.getByText("is not the key of a service account").waitFor();
  expect(await stored("vertex-2")).toBeUndefined();
});

test("a Bedrock account on a phone, in Chinese, has the address of its region", async () => {
  const page = await openAccounts({ width: PHONE_WIDTH, language: "zh" });
  await page.getByRole("button", { name: "添加账号" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("名称", { exact: true }).fill("bedrock-1");
  await dialog.getByLabel("类型").selectOption("bedrock");
  await dialog.getByLabel("区域").fill("eu-west-1");
  await dialog.getByLabel("Bedrock API 密钥").fill("bedrock-key");
  expect(await sidewaysScroll(page)).toBe(0);
  await dialog.getByRole("button", { name: "添加账号" }).click();
  await page.getByRole("heading", { level: 1, name: "bedrock-1" }).waitFor();
  expect((await stored("bedrock-1"))?.baseUrl).toBe("https://bedrock-runtime.eu-west-1.amazonaws.com");
});
