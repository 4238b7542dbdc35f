/** What surrounds every page: navigation, keyboard, appearance, language and access control. */

import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { type ConsoleUnderTest, PHONE_WIDTH, startConsole } from "./browser.ts";

let console: ConsoleUnderTest;
beforeAll(async () => {
  console = await startConsole();
});
afterAll(() => console.stop());
afterEach(async () => {
  expect(console.complaints()).toEqual([]);
  await console.closePages();
});

const PERSON = "dev@example.com";

test("navigation, shortcut help and skipping the navigation work by keyboard alone", async () => {
  const page = await console.openAs(PERSON, "user", "/usage");
  await page.keyboard.press("g");
  await page.keyboard.press("k");
  await page.waitForURL(/\/console\/keys$/);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.goto(`${console.gateway.url}/console/wallet`);
  await page.locator("h1").waitFor();
  await page.keyboard.press("Tab");
  expect(await page.locator(":focus").textContent()).toBe("Skip to content");
  await page.keyboard.press("Enter");
  expect(await page.locator("main").evaluate(hasFocus)).toBe(true);
});

test("opening a page sets the window title and focuses its heading", async () => {
  const page = await console.openAs(PERSON, "user", "/usage");
  await page.getByRole("link", { name: "Wallet" }).click();
  await page.getByRole("heading", { name: "Wallet", level: 1 }).waitFor();
  expect(await page.title()).toBe("Wallet · Model Gateway");
  expect(await page.locator("h1").evaluate(hasFocus)).toBe(true);
});

test("the navigation stays mounted while pages change", async () => {
  const page = await console.openAs(PERSON, "user", "/usage");
  const navigation = await page.getByRole("navigation").first().elementHandle();
  await page.getByRole("link", { name: "Wallet" }).click();
  await page.getByRole("heading", { name: "Wallet", level: 1 }).waitFor();
  expect(await navigation?.isVisible()).toBe(true);
});

test("the selected theme and language are stored", async () => {
  const page = await console.openAs(PERSON, "user", "/usage");
  await page.getByRole("button", { name: "Theme" }).click();
  await page.getByRole("button", { name: "Dark" }).click();
  await page.getByRole("button", { name: "Theme" }).click();
  await page.getByRole("button", { name: "简体中文" }).click();
  await page.getByRole("heading", { name: "用量", level: 1 }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "用量", level: 1 }).waitFor();
  expect(await page.locator("html").getAttribute("data-theme")).toBe("dark");
  expect(await page.locator("html").getAttribute("lang")).toBe("zh");
});

test("on a phone the navigation is in a drawer that closes after navigation", async () => {
  const page = await console.openAs(PERSON, "user", "/usage", { width: PHONE_WIDTH });
  expect(await page.getByRole("link", { name: "Models" }).isVisible()).toBe(false);
  await page.getByRole("button", { name: "Open navigation" }).click();
  await page.getByRole("dialog", { name: "Main" }).getByRole("link", { name: "Models" }).click();
  await page.getByRole("heading", { name: "Models", level: 1 }).waitFor();
  expect(await page.getByRole("dialog").count()).toBe(0);
});

test("a signed-out user is redirected to sign in and keeps the requested address", async () => {
  const page = await console.open("/usage?range=month");
  await page.waitForURL(/\/sign-in\?next=/);
  expect(new URL(page.url()).searchParams.get("next")).toBe("/usage?range=month");
});

test("administrator pages are hidden from other users, and unknown addresses are reported", async () => {
  const page = await console.openAs(PERSON, "user", "/admin/users");
  await page.getByRole("heading", { name: "No access" }).waitFor();
  expect(await page.getByRole("link", { name: "Users" }).count()).toBe(0);
  await console.goTo(page, "/nowhere");
  await page.getByRole("heading", { name: "Page not found" }).waitFor();
});

test("an unreachable gateway is reported, and the page recovers when it is back", async () => {
  const page = await console.openAs(PERSON, "user", "/keys");
  await page.route("**/api/**", (route) => route.abort());
  await page.getByRole("link", { name: "Usage" }).click();
  await page.getByText("The gateway is not reachable").first().waitFor();
  await page.unroute("**/api/**");
  await page.getByRole("button", { name: "Try again" }).first().click();
  await page.getByText("No usage yet").waitFor();
});

test("a page whose code cannot be loaded reports the unreachable gateway, and opens later", async () => {
  const page = await console.openAs(PERSON, "user", "/keys");
  await page.context().setOffline(true);
  await page.getByRole("link", { name: "Models" }).click();
  await page.getByText("The gateway is not reachable").first().waitFor();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.context().setOffline(false);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { name: "Models", level: 1 }).waitFor();
  // The browser also logs that the code was not loaded.
  console.complaints();
});

test("signing out leads to the sign-in page and removes all data", async () => {
  const page = await console.openAs(PERSON, "user", "/usage");
  await page.getByRole("button", { name: "Account" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(/\/sign-in/);
  await page.goto(`${console.gateway.url}/console/usage`);
  await page.waitForURL(/\/sign-in/);
});

/** Runs in the page. */
function hasFocus(element: { matches(selector: string): boolean }): boolean {
  return element.matches(":focus");
}
