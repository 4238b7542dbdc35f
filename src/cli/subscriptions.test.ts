import { expect, test } from "bun:test";
import { openCommandLine } from "./command-line.test-support.ts";

const FILE = `
plans:
  - { name: pro, windows: [{ per: day, usd: "5.00" }, { per: month, usd: "50.00", counted: rolling }] }
  - { name: trial, time_zone: Europe/Berlin, windows: [{ per: week, usd: "1.00" }] }
users: [{ email: ada@example.com }, { email: bob@example.com }]
`;

const { run, runOk: done, runFailing: refused, json } = openCommandLine(FILE);
const ADA = ["--user", "ada@example.com"];

test("plans are listed with their windows", async () => {
  const out = await done("plans", "list");
  expect(out).toMatch(/pro +UTC +0 +day +\$5\.00 +calendar\n +month +\$50\.00 +rolling/);
  expect(out).toMatch(/trial +Europe\/Berlin +0 +week +\$1\.00 +calendar/);
  expect((await json("plans", "list"))[1]).toEqual({
    name: "trial",
    time_zone: "Europe/Berlin",
    windows: [{ per: "week", usd: "1.00", counted: "calendar" }],
    subscriptions: 0,
  });
});

test("a plan is granted, listed with its remaining quota, and cancelled", async () => {
  expect((await run("subscriptions", "list")).err).toContain("subscriptions grant --user EMAIL --plan PLAN");
  const granted = await json("subscriptions", "grant", ...ADA, "--plan", "pro", "--renews", "month");
  expect(granted).toMatchObject({
    user: "ada@example.com",
    plan: "pro",
    status: "running",
    renews: "month",
    priority: 1,
  });
  expect(granted.windows).toMatchObject([
    { per: "day", limit: "5.00", used: "0.00", held: "0.00", remaining: "5.00" },
    { per: "month", counted: "rolling", resets_at: granted.ends },
  ]);
  const words = await done(
    "subscriptions",
    "grant",
    ...ADA,
    "--plan",
    "trial",
    "--starts",
    "2095-01-01",
    "--priority",
    "0",
  );
  expect(words).toContain("ada@example.com has the plan trial from 2095-01-01 00:00:00 UTC.");
  const out = await done("subscriptions", "list", ...ADA);
  expect(out).toMatch(/^ada@example\.com +trial +upcoming from 2095-01-01 00:00:00\nsub_\S+ +priority 0$/m);
  expect(out).toMatch(/^ada@example\.com +pro +running until \S+ \S+, renews every month$/m);
  expect(out).toMatch(/^ +day +\$5\.00 +\$0\.00 +\$0\.00 +\$5\.00 +\d{4}-/m);
  expect(await json("subscriptions", "list", "--user", "bob@example.com")).toEqual([]);

  expect(await done("subscriptions", "cancel", granted.id, "--at-end")).toContain("and does not renew");
  expect((await json("subscriptions", "list", ...ADA))[1]).toMatchObject({
    renews: "none",
    ends: granted.ends,
  });
  expect(await done("subscriptions", "cancel", granted.id)).toContain("is cancelled");
  expect(await done("subscriptions", "cancel", granted.id)).toContain("was already cancelled");
  expect(await json("subscriptions", "list")).toHaveLength(1);
  expect(await json("subscriptions", "list", "--all")).toHaveLength(2);
});

test("an invalid grant or cancellation fails with a message", async () => {
  const grant = ["subscriptions", "grant", ...ADA, "--plan"];
  expect(await refused(...grant, "gold")).toContain('The plan "gold" does not exist. Plans: pro, trial.');
  expect(await refused("subscriptions", "grant", "--user", "eve@example.com", "--plan", "pro")).toContain(
    "does not exist",
  );
  expect(await refused(...grant, "pro", "--ends", "2020-01-01")).toContain("--ends is in the past.");
  expect(await refused(...grant, "pro", "--starts", "2020-01-01", "--ends", "2021-01-01")).toContain(
    "is in the past",
  );
  expect(await refused(...grant, "pro", "--starts", "2095-02-30")).toContain("--starts must be an ISO date");
  expect(await refused(...grant, "pro", "--starts", "2095-02-01", "--ends", "2095-01-01")).toContain(
    "--ends must be after --starts.",
  );
  expect(await refused(...grant, "pro", "--renews", "weekly")).toContain("none, month or year");
  expect(await refused(...grant, "pro", "--priority", "-1")).toContain("priority");
  await done(...grant, "pro", "--starts", "2095-01-01");
  expect(await refused(...grant, "pro", "--starts", "2095-01-01")).toContain("already has the plan");
  expect(await refused("subscriptions", "cancel", "sub_x")).toContain('Subscription "sub_x" does not exist.');
  const [open] = await json("subscriptions", "list");
  expect(await refused("subscriptions", "cancel", open.id, "--at-end")).toContain("has no end");
});

test("codes can grant a plan for a number of days", async () => {
  const made = await json(
    "codes",
    "create",
    "--plan",
    "pro",
    "--days",
    "30",
    "--batch",
    "gift",
    "--print-secret",
  );
  expect(made).toMatchObject({ batch: "gift", plan: "pro", days: 30 });
  expect(await json("codes", "list")).toMatchObject([{ batch: "gift", plan: "pro", days: 30, unused: 1 }]);
  expect(await done("codes", "list")).toContain("pro, 30 days");
  const words = await done("codes", "redeem", made.codes[0], "--user", "bob@example.com");
  expect(words).toContain("bob@example.com has the plan pro until");
  expect(await refused("codes", "create", "--plan", "pro")).toContain("--plan needs --days.");
  expect(await refused("codes", "create", "--usd", "5", "--days", "30")).toContain("--days needs --plan.");
  expect(await refused("codes", "create", "--plan", "pro", "--days", "1", "--usd", "5")).toContain(
    "--usd and --plan cannot be combined.",
  );
  expect(await refused("codes", "create", "--plan", "gold", "--days", "1")).toContain(
    'The plan "gold" does not exist.',
  );
  expect(await refused("codes", "create")).toContain("--usd");
});
