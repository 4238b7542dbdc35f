import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const LAUNCHER = resolve(import.meta.dir, "../../bin/model-gateway");

// Every command is a process of its own, and the machine may be busy.
setDefaultTimeout(120_000);

let folder: string;

const FILE = `
plans:
  - { name: pro, windows: [{ per: day, usd: "5.00" }, { per: month, usd: "50.00", counted: rolling }] }
  - { name: trial, time_zone: Europe/Berlin, windows: [{ per: week, usd: "1.00" }] }
users: [{ email: ada@example.com }, { email: bob@example.com }]
`;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-subscriptions-"));
  writeFileSync(join(folder, "gateway.yaml"), FILE);
  await done("apply", "gateway.yaml");
});

afterEach(() => rmSync(folder, { recursive: true }));

async function run(...args: string[]) {
  const child = Bun.spawn([LAUNCHER, ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "" },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { code, out, err };
}

async function done(...args: string[]): Promise<string> {
  const { code, out, err } = await run(...args);
  if (code !== 0) throw new Error(err);
  return out;
}

async function refused(...args: string[]): Promise<string> {
  const { code, err } = await run(...args);
  expect(code).toBeGreaterThan(0);
  expect(err).not.toContain("unexpected");
  return err;
}

const json = async (...args: string[]) => JSON.parse(await done(...args, "--json"));
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

test("a plan is granted, listed with what is left of it, and cancelled", async () => {
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
  expect(out).toMatch(/^ada@example\.com +pro +running until \S+ \S+, renews by the month$/m);
  expect(out).toMatch(/^ +day +\$5\.00 +\$0\.00 +\$0\.00 +\$5\.00 +\d{4}-/m);
  expect(await json("subscriptions", "list", "--user", "bob@example.com")).toEqual([]);

  expect(await done("subscriptions", "cancel", granted.id, "--at-end")).toContain("and does not renew");
  expect((await json("subscriptions", "list", ...ADA))[1]).toMatchObject({
    renews: "none",
    ends: granted.ends,
  });
  expect(await done("subscriptions", "cancel", granted.id)).toContain("is cancelled");
  expect(await done("subscriptions", "cancel", granted.id)).toContain("was cancelled before");
  expect(await json("subscriptions", "list")).toHaveLength(1);
  expect(await json("subscriptions", "list", "--all")).toHaveLength(2);
});

test("what cannot be granted or cancelled is refused with a sentence", async () => {
  const grant = ["subscriptions", "grant", ...ADA, "--plan"];
  expect(await refused(...grant, "gold")).toContain('There is no plan "gold". Plans: pro, trial.');
  expect(await refused("subscriptions", "grant", "--user", "eve@example.com", "--plan", "pro")).toContain(
    "no user",
  );
  expect(await refused(...grant, "pro", "--ends", "2020-01-01")).toContain("--ends is in the past.");
  expect(await refused(...grant, "pro", "--starts", "2095-02-30")).toContain("--starts must be an ISO date");
  expect(await refused(...grant, "pro", "--starts", "2095-02-01", "--ends", "2095-01-01")).toContain(
    "--ends must be after --starts.",
  );
  expect(await refused(...grant, "pro", "--renews", "weekly")).toContain("none, month or year");
  expect(await refused(...grant, "pro", "--priority", "-1")).toContain("priority");
  await done(...grant, "pro", "--starts", "2095-01-01");
  expect(await refused(...grant, "pro", "--starts", "2095-01-01")).toContain("with this start already");
  expect(await refused("subscriptions", "cancel", "sub_x")).toContain('There is no subscription "sub_x".');
  const [open] = await json("subscriptions", "list");
  expect(await refused("subscriptions", "cancel", open.id, "--at-end")).toContain("no end to wait for");
});
