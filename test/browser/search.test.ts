/** An administrator finds keys: the page of all keys, the search of the top bar, and numbers that link to their list. */

import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { startWorld, type World } from "./demo-data.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());
afterEach(async () => {
  expect(world.complaints()).toEqual([]);
  await world.closePages();
});

const open = (path: string) => world.openAs("ada@example.com", "admin", path);

test("the page of all keys is searched by owner, and keeps the search in its address", async () => {
  const page = await open("/admin/keys");
  const rows = page.getByRole("table", { name: "All keys" }).locator("tbody").getByRole("row");
  await page.getByText("Notebook").waitFor();
  expect(await rows.count()).toBe(3);
  await page.getByRole("searchbox", { name: "Search by name, ID, owner or group" }).fill("grace@");
  await page.getByText("CI runner").waitFor({ state: "detached" });
  expect(await rows.count()).toBe(1);
  await page.reload();
  await page.getByText("Notebook").waitFor();
  expect(await rows.count()).toBe(1);
});

test("a number of keys links to the keys that it counts", async () => {
  const page = await open("/admin/groups");
  const row = page.getByRole("row").filter({ hasText: "research" });
  await row.locator('a[href*="/admin/keys"]').click();
  await page.getByText("Keys of the group research").waitFor();
  await page.getByText("CI runner").waitFor();
  expect(await page.getByText("Notebook").count()).toBe(0);
  await page.getByRole("button", { name: "Show all keys" }).click();
  await page.getByText("Notebook").waitFor();
});

test("the number of requests of a key links to these requests", async () => {
  const page = await open("/admin/keys");
  const row = page.getByRole("row").filter({ hasText: "CI runner" });
  await row.locator('a[href*="/usage?"]').click();
  await page.getByRole("heading", { name: "Usage" }).waitFor();
  const { searchParams } = new URL(page.url());
  expect([searchParams.get("key"), searchParams.get("range")]).toEqual([
    expect.stringContaining("key_"),
    "month",
  ]);
});

test("numbers of models and accounts of a group link to their lists", async () => {
  const page = await open("/admin/groups");
  const row = page.getByRole("row").filter({ hasText: "research" });
  for (const list of ["models", "accounts"]) {
    await row.locator(`a[href*="/admin/${list}?group=research"]`).click();
    await page.getByText("Only of the group research").waitFor();
    await page.getByRole("button", { name: "Show all" }).click();
    await page.getByText("Only of the group research").waitFor({ state: "detached" });
    await page.goBack();
  }
});

test("the search of the top bar opens a single result, and lists several by kind", async () => {
  const page = await open("/admin");
  const search = page.getByRole("banner").getByRole("searchbox", { name: "Search" });
  await search.fill("frankfurt");
  await search.press("Enter");
  await page.waitForURL(/\/admin\/accounts\/frankfurt$/);
  await search.fill("grace@example.com");
  await search.press("Enter");
  await page.getByRole("heading", { name: "Results for" }).waitFor();
  await page.getByRole("heading", { name: "API keys" }).waitFor();
  await page.getByRole("main").getByRole("link", { name: "grace@example.com" }).click();
  await page.waitForURL(/\/admin\/users\//);
  await search.fill("nothing like this");
  await search.press("Enter");
  await page.getByText("Nothing found").waitFor();
});

test("a request id opens the request", async () => {
  const page = await open("/admin");
  const search = page.getByRole("banner").getByRole("searchbox", { name: "Search" });
  await search.fill("req_unknown");
  await search.press("Enter");
  await page.waitForURL(/\/requests\/req_unknown$/);
});
