/** A tool is signed in and ended in a real browser. */

import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { ToolClient } from "../support/tool-client.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, type Looks, PHONE_WIDTH, startConsole } from "./browser.ts";

// The console is built and a browser starts first.
setDefaultTimeout(120_000);

const EMAIL = "ada@example.com";
const PASSWORD = "correct horse battery staple";

let console: ConsoleUnderTest;
let tool: ToolClient;
let offsetMs = 0;
const clock: Clock = {
  nowMs: () => systemClock.nowMs() + offsetMs,
  monotonicMs: () => systemClock.monotonicMs(),
};

beforeAll(async () => {
  console = await startConsole({ clock });
  await console.gateway.apply(`
tool_sign_in: {}
users: [{ email: ${EMAIL}, password: "${PASSWORD}" }]
`);
  tool = new ToolClient(console.gateway.url);
  await tool.ready();
});
afterAll(() => console.stop());
afterEach(() => {
  expect(console.complaints()).toEqual([]);
});

/** As the link of a tool leads there. */
const pagePath = (userCode: string) => `/device?user_code=${userCode}`;

test("the link of a tool leads over the sign-in to its code, and the profile ends the tool", async () => {
  const { userCode, deviceCode } = await tool.start();
  const page = await console.open(pagePath(userCode));
  await page.getByLabel("E-mail address", { exact: true }).fill(EMAIL);
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  const code = page.getByLabel("Code", { exact: true });
  await code.waitFor();
  expect(await code.inputValue()).toBe(userCode);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("Did you start this sign-in yourself, just now?").waitFor();
  await page.getByText("127.0.0.1").waitFor();
  // Neither the link nor the code has approved anything.
  expect((await tool.poll(deviceCode)).error).toBe("authorization_pending");
  await page.getByLabel("Name of the tool").fill("Laptop");
  await page.getByRole("button", { name: "Sign in the tool" }).click();
  await page.getByText("The tool is signed in").waitFor();
  // The pause between two polls of a tool.
  offsetMs += 6_000;
  const tokens = await tool.poll(deviceCode);
  expect((await tool.callModel(tokens.access)).status).toBe(200);
  await page.getByRole("link", { name: "Signed-in tools" }).click();
  const row = page.getByRole("row", { name: /Laptop/ });
  await row.getByRole("button", { name: "End" }).click();
  expect(await axeFindings(page)).toEqual([]);
  await page.getByRole("dialog").getByRole("button", { name: "End" }).click();
  await row.waitFor({ state: "detached" });
  expect((await tool.callModel(tokens.access)).status).toBe(401);
});

test("a wrong code is named, and a rejected tool gets no tokens", async () => {
  const page = await console.openAs(EMAIL, "user", "/device");
  await page.getByLabel("Code", { exact: true }).fill("BBBB-BBBB");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("the code is wrong or has expired").waitFor();
  const { userCode, deviceCode } = await tool.start();
  await page.getByLabel("Code", { exact: true }).fill(userCode.toLowerCase().replace("-", " "));
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("button", { name: "Reject" }).click();
  await page.getByText("Sign-in rejected").waitFor();
  expect((await tool.poll(deviceCode)).error).toBe("access_denied");
});

const LOOKS: readonly Looks[] = [
  { scheme: "light" },
  { scheme: "dark" },
  { width: PHONE_WIDTH },
  { width: PHONE_WIDTH, language: "zh" },
];

test("the page fits and is accessible in each look, in English and Chinese", async () => {
  const { userCode } = await tool.start();
  for (const looks of LOOKS) {
    const isChinese = looks.language === "zh";
    const page = await console.openAs(EMAIL, "user", pagePath(userCode), looks);
    await page.getByRole("button", { name: isChinese ? "继续" : "Continue" }).click();
    await page.getByRole("button", { name: isChinese ? "登录该工具" : "Sign in the tool" }).waitFor();
    expect(await sidewaysScroll(page)).toBe(0);
    expect(await axeFindings(page)).toEqual([]);
    await page.close();
  }
});
