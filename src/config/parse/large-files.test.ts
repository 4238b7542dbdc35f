/** Files and installations that are too large to be written by hand. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SubscriptionRecord } from "../../records/plan.ts";
import { exportFile } from "../export/export.ts";
import { readSettings } from "../installation/environment.ts";
import { type Installation, openInstallation } from "../installation/installation.ts";
import { applyChanges, planChanges } from "../plan/apply.ts";
import { planGrants, subscriptionsToFile } from "../plan/plan-grants.ts";
import { readState } from "../state/step.ts";
import { checkReferences } from "./check.ts";
import { parseGatewayFile } from "./file.ts";
import { NO_KNOWN_NAMES } from "./references.ts";

let folder: string;
let gateway: Installation;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-large-"));
  const result = readSettings({ flags: { data: folder }, environment: {} });
  if (!result.ok) throw new Error(result.problems.join());
  gateway = await openInstallation(result.settings, {});
});
afterAll(async () => {
  await gateway.db.close();
  rmSync(folder, { recursive: true });
});

const plan = (text: string, environment: Record<string, string> = {}) =>
  planChanges(gateway, { text, fileName: "gateway.yaml", environment }, { prune: false });

const email = (i: number) => `user${i}@example.com`;
const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

describe("an installation with many users", () => {
  test("is exported with every comment in place, and applying the export changes nothing", async () => {
    const [users, noted] = [1_201, 1_100];
    const entries = numbers(users).map(
      (i) => `  - { email: ${email(i)}${i === noted ? ", password: one-of-many-words" : ""} }`,
    );
    const made = await plan(`users:\n${entries.join("\n")}\n`);
    if (!made.ok) throw new Error(made.problems[0]?.message);
    await applyChanges(gateway, made.plan);

    const text = await exportFile(gateway.db);
    expect(text.match(/^users:$/gm)).toHaveLength(1);
    expect(text.match(/^ {2}- email: /gm)).toHaveLength(users);
    expect(text.match(/.*\n.*password: stored, not exported/g)).toEqual([
      `  - email: ${email(noted)}\n    # password: stored, not exported`,
    ]);
    expect(await plan(text)).toMatchObject({ ok: true, plan: { changes: [] } });
  });

  test("is planned without reading all subscriptions once per user", async () => {
    const users = 300;
    let looks = 0;
    const subscriptions = numbers(users).map(
      (i): SubscriptionRecord => ({
        id: `sub_${i}`,
        get userId() {
          looks += 1;
          return `user_${i}`;
        },
        planId: "plan",
        startsAtMs: 1,
        endsAtMs: null,
        renews: "none",
        priority: 0,
        status: "active",
        createdAtMs: 1,
      }),
    );
    const windows = '[{ per: day, usd: "1.00" }]';
    const entries = numbers(users).map((i) => `{ email: ${email(i)}, subscriptions: [{ plan: pro }] }`);
    const text = `plans: [{ name: pro, windows: ${windows} }]\nusers: [${entries.join(", ")}]`;
    const parsed = parseGatewayFile(text, { fileName: "gateway.yaml", environment: {} });
    if (!parsed.ok) throw new Error(parsed.problems[0]?.message);
    const state = {
      ...(await readState(gateway.db)),
      plans: [{ id: "plan", name: "pro", timeZone: "UTC", windows: [], createdAtMs: 1 }],
      subscriptions,
    };

    const written = subscriptionsToFile(state, 2);
    const ids = new Map(numbers(users).map((i) => [email(i), `user_${i}`]));
    planGrants(state, parsed.file, ids, gateway);
    expect(written.size).toBe(users);
    expect(looks).toBeLessThan(10 * users);
  });
});

describe("a large file", () => {
  const padding = `# ${"-".repeat(200_000)}\n`;

  test("is read like a small one, with variables and line numbers", async () => {
    const named = await plan(`${padding}users:\n  - { email: "\${WHO}" }\n`, { WHO: "ada@example.com" });
    expect(named).toMatchObject({ ok: true, plan: { changes: [{ what: "user ada@example.com" }] } });
    expect(await plan(`${padding}users:\n  - { email: 5 }\n  - { mail: x }\n`)).toMatchObject({
      ok: false,
      problems: [
        { line: 3, column: 14, field: "users[0].email" },
        { line: 4, field: "users[1].email" },
        { line: 4, column: 7, field: "users[1].mail" },
      ],
    });
    expect(await plan(`${padding}users: [\n`)).toMatchObject({ ok: false, problems: [{ line: 3 }] });
  });

  test("with a thousand unknown names gets a suggestion for the first only", () => {
    const keys = numbers(1_000).map((i) => ({ name: `k${i}`, group: "defualt" }));
    const problems = checkReferences({ groups: [{ name: "default" }], keys }, NO_KNOWN_NAMES, {
      show: (_, value) => value,
      isShowable: () => true,
    });
    expect(problems).toHaveLength(1_000);
    expect(problems[0]?.message).toContain('Did you mean "default"?');
    expect(problems.at(-1)?.message).toContain("Known: default.");
  });
});
