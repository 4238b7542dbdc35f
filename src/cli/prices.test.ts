import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { BUNDLED_PRICES } from "../money/price-list.ts";
import { openCommandLine } from "./command-line.test-support.ts";

const { folder, run } = openCommandLine();

const GATEWAY = `
models:
  - { id: own, interfaces: [chat], price: { input: "3", output: "4" } }
  - { id: gpt-4o, interfaces: [chat] }
  - { id: fast, interfaces: [chat] }
  - { id: unknown, interfaces: [chat] }
accounts:
  - { name: sim, kind: simulator, models: { fast: gpt-4o-mini, "*": "*" } }
groups:
  - { name: team, models: [own, gpt-4o, fast, unknown], accounts: [sim] }
  - name: paying
    models: [own, gpt-4o]
    accounts: [sim]
    billing:
      charge: balance
      multiplier: "1.5"
      model_multipliers: { own: "2" }
      model_prices: { gpt-4o: { request: "0.5" } }
`;

/** Lines with single spaces instead of column alignment. */
const lines = (text: string) =>
  text
    .trim()
    .split("\n")
    .map((line) => line.split(/ {2,}/).join(" | "));

async function applied(): Promise<void> {
  writeFileSync(join(folder(), "gateway.yaml"), GATEWAY);
  expect(await run("apply", "gateway.yaml")).toMatchObject({ code: 0 });
}

test("prices list shows the price of each model and its source", async () => {
  await applied();
  const { date } = BUNDLED_PRICES;
  expect(lines((await run("prices", "list")).out)).toEqual([
    "MODEL | GROUPS | TIMES | SOURCE | DATE | USD",
    `fast | team | 1 | bundled list, as gpt-4o-mini | ${date} | input 0.15, cached_input 0.075, output 0.60, per_call.web_search 0.01 (quoted 2026-11-17)`,
    `gpt-4o | team | 1 | bundled list | ${date} | input 2.50, cached_input 1.25, output 10, per_call.web_search 0.01 (quoted 2026-11-17)`,
    "gpt-4o | paying | 1.5 | group | - | request 0.5",
    "own | team | 1 | model | - | input 3, output 4",
    "own | paying | 3 | model | - | input 3, output 4",
    "unknown | team | - | - | - | none",
  ]);
  expect((await run("prices", "list", "--model", "o3")).out).toContain("bundled list");
  expect((await run("prices", "list", "--all")).out).toContain("dall-e-3");
  const missing = await run("prices", "list", "--model", "nope");
  expect([missing.code, missing.err]).toEqual([1, expect.stringContaining('"nope"')]);
});

test("prices update shows the changes, applies them once, and lists models without a price", async () => {
  await applied();
  const file = join(folder(), "prices.json");
  const list = { date: "2026-11-01", models: { unknown: { price: { input: "9" } } } };
  writeFileSync(file, JSON.stringify(list));

  const dry = await run("prices", "update", "--from", file, "--dry-run");
  expect(dry.out).toContain("+ price of unknown");
  expect(dry.out).toContain("no changes were written");
  expect((await run("prices", "update", "--from", file)).out).toContain("Applied.");
  expect((await run("prices", "list", "--model", "unknown")).out).toContain("updated list");
  expect((await run("prices", "update", "--from", file)).out).toContain("No changes");

  writeFileSync(
    join(folder(), "more.yaml"),
    "groups:\n  - { name: other, models: [unknown], accounts: [sim], billing: { charge: balance } }\n",
  );
  expect((await run("apply", "more.yaml")).code).toBe(0);
  writeFileSync(file, JSON.stringify({ ...list, models: { "gpt-4o": { price: { input: "1" } } } }));
  const removed = await run("prices", "update", "--from", file);
  expect(removed.out).toContain("- price of unknown");
  expect(removed.err).toContain("Group other charges and does not publish unknown");
  const doctor = await run("doctor");
  expect([doctor.code, doctor.out]).toEqual([
    1,
    expect.stringContaining("does not publish unknown: it has no price, and the group charges a balance"),
  ]);
});

test("prices update names the list prices in use that are older than 90 days", async () => {
  await applied();
  const file = join(folder(), "prices.json");
  const update = (date: string, ...how: string[]) => {
    writeFileSync(file, JSON.stringify({ date, models: { "gpt-4o": { price: { input: "1" } } } }));
    return run("prices", "update", "--from", file, ...how);
  };
  const today = new Date().toISOString().slice(0, 10);
  const { date } = BUNDLED_PRICES;
  const old = await update("2026-01-01");
  expect(old.err).toContain(`older than 90 days are in use: fast (${date}), gpt-4o (2026-01-01)`);
  const { outdated } = JSON.parse((await update(today, "--json")).out);
  expect(outdated.map(({ model }: { model: string }) => model)).not.toContain("gpt-4o");
});

test("a wrong price list is rejected with its line, and nothing is written", async () => {
  await applied();
  const file = join(folder(), "prices.yaml");
  writeFileSync(file, "date: 2026-11-01\nmodels:\n  m: { price: { input: 1.5 } }\n");
  const { code, err } = await run("prices", "update", "--from", file);
  expect(code).toBe(1);
  expect(err).toContain("prices.yaml:3:");
  expect(err).toContain("models.m.price.input");
  expect((await run("prices", "list", "--model", "m")).code).toBe(1);
  const missing = await run("prices", "update", "--from", "nowhere.yaml");
  expect(missing).toMatchObject({ code: 1, err: expect.stringContaining("prices update --help") });
});

test("a price list older than the current one is accepted only with --older", async () => {
  await applied();
  const file = join(folder(), "prices.json");
  const of = (date: string, input: string) => ({ date, models: { unknown: { price: { input } } } });
  writeFileSync(file, JSON.stringify(of("2026-11-02", "9")));
  expect((await run("prices", "update", "--from", file)).code).toBe(0);
  writeFileSync(file, JSON.stringify(of("2026-11-01", "8")));
  for (const how of [["--dry-run"], []]) {
    const { code, err } = await run("prices", "update", "--from", file, ...how);
    expect([code, err]).toEqual([1, expect.stringContaining("not earlier than 2026-11-02")]);
  }
  expect((await run("prices", "list", "--model", "unknown")).out).toContain("input 9");
  expect((await run("prices", "update", "--from", file, "--older")).code).toBe(0);
  expect((await run("prices", "list", "--model", "unknown")).out).toContain("input 8");
});

test("a key for a charging group cannot be created without a user", async () => {
  await applied();
  const refused = await run("keys", "create", "--name", "ci", "--group", "paying");
  expect(refused.code).toBe(1);
  expect(refused.err).toContain("a key of a charging group needs a user to charge");
  expect((await run("keys", "create", "--name", "ci", "--group", "team")).code).toBe(0);
});
