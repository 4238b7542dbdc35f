import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { listPlans } from "../../store/money/plans.ts";
import { cancelSubscription, listSubscriptions, putSubscription } from "../../store/money/subscriptions.ts";
import { exportFile } from "../export/export.ts";
import { type FreshInstallation, freshInstallation } from "../installation/installation.test-support.ts";
import type { Installation } from "../installation/installation.ts";
import { parseGatewayFile } from "../parse/file.ts";
import { formatProblem } from "../state/problem.ts";
import { applyChanges, type PlannedChanges, planChanges } from "./apply.ts";

let gateway: Installation;
let remove: FreshInstallation["remove"];
let nowMs: number;

beforeEach(async () => {
  const opened = await freshInstallation();
  nowMs = Date.parse("2027-03-10T12:00:00Z");
  const { clock } = opened.gateway;
  gateway = { ...opened.gateway, clock: { ...clock, nowMs: () => nowMs } };
  remove = opened.remove;
});

afterEach(() => remove());

const PLANS = `
plans:
  - name: pro
    time_zone: Europe/Berlin
    windows: [{ per: month, usd: "50.00", counted: rolling }, { per: day, usd: "5" }]
  - name: trial
    windows: [{ per: week, usd: "1.00" }]
`;
const FILE = `${PLANS}
users:
  - email: dev@example.com
    subscriptions:
      - { plan: pro, ends: 2027-04-30, renews: month, priority: 2 }
      - { plan: trial, starts: 2027-01-01, ends: 2027-12-31 }
`;

async function planned(text: string, prune = false): Promise<PlannedChanges> {
  const result = await planChanges(gateway, { text, fileName: "gateway.yaml", environment: {} }, { prune });
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join("\n"));
  return result.plan;
}

async function apply(text: string, prune = false): Promise<string[]> {
  const plan = await planned(text, prune);
  await applyChanges(gateway, plan);
  return plan.changes.map(
    ({ kind, what, fields }) =>
      `${kind} ${what}: ${fields.map(({ field, to }) => `${field}=${to}`).join(" ")}`,
  );
}

function rejections(text: string): string[] {
  const parsed = parseGatewayFile(text, { fileName: "gateway.yaml", environment: {} });
  return parsed.ok ? [] : parsed.problems.map(({ line, field, message }) => `${line} ${field}: ${message}`);
}

describe("applying plans and subscriptions", () => {
  test("creates them, and a second run changes nothing", async () => {
    expect(await apply(FILE)).toEqual([
      "create plan pro: time_zone=Europe/Berlin windows.day=5.00 USD, calendar windows.month=50.00 USD, rolling",
      "create plan trial: time_zone=UTC windows.week=1.00 USD, calendar",
      "create user dev@example.com: role=user status=active",
      "create subscription pro of dev@example.com: starts=2027-03-10T12:00:00.000Z ends=2027-04-30T23:59:59.999Z renews=month priority=2",
      "create subscription trial of dev@example.com: starts=2027-01-01T00:00:00.000Z ends=2027-12-31T23:59:59.999Z renews=none priority=1",
    ]);
    expect(await listPlans(gateway.db)).toMatchObject([
      {
        windows: [
          { per: "day", usd: "5.00" },
          { per: "month", usd: "50.00" },
        ],
      },
      { windows: [{ per: "week", counted: "calendar" }] },
    ]);
    for (const days of [0, 1, 100, 1000]) {
      nowMs += days * 86_400_000;
      expect(await apply(FILE)).toEqual([]);
      expect(await apply(FILE, true)).toEqual([]);
    }
  });

  test("updates changed fields, and keeps a start that the file omits", async () => {
    await apply(FILE);
    nowMs += 86_400_000;
    const changed = FILE.replace('usd: "5"', 'usd: "6.50"').replace(
      "renews: month, priority: 2",
      "priority: 0",
    );
    expect(await apply(changed)).toEqual([
      "change plan pro: windows.day=6.50 USD, calendar",
      "change subscription pro of dev@example.com: renews=none priority=0",
    ]);
    expect(await listSubscriptions(gateway.db)).toHaveLength(2);
  });

  test("reports the end that results from a renewal", async () => {
    const granted = (subscription: string) =>
      `${PLANS}\nusers: [{ email: dev@example.com, subscriptions: [{ plan: trial, ${subscription} }] }]`;
    const ends = async (subscription: string) => {
      const { changes } = await planned(granted(subscription));
      return changes.flatMap(({ fields }) => fields.filter(({ field }) => field === "ends"));
    };
    await apply(granted("starts: 2027-01-31, renews: month"));
    expect(await ends("starts: 2027-01-31")).toEqual([
      { field: "ends", from: "2027-03-31T00:00:00.000Z (renews)", to: null },
    ]);
    // The same time, but a different end: the following terms are counted from it.
    const first = "starts: 2027-01-31, ends: 2027-03-31T00:00:00Z, renews: month";
    expect(await ends(first)).toMatchObject([{ to: "2027-03-31T00:00:00.000Z" }]);
    await apply(granted(first));
    nowMs = Date.parse("2027-06-10T12:00:00Z");
    expect(await ends(first)).toEqual([]);
    expect(await ends(first.replace("renews: month", "renews: none"))).toEqual([
      {
        field: "ends",
        from: "2027-06-30T00:00:00.000Z (renews since 2027-03-31T00:00:00.000Z)",
        to: "2027-03-31T00:00:00.000Z",
      },
    ]);
  });

  test("distinguishes two subscriptions to one plan by their starts", async () => {
    const two = `${PLANS}
users:
  - email: dev@example.com
    subscriptions: [{ plan: pro }, { plan: pro, starts: 2027-06-01 }]
`;
    expect(await apply(two)).toHaveLength(5);
    expect(await apply(two)).toEqual([]);
    expect(
      await apply(
        two.replace(
          "{ plan: pro }, { plan: pro, starts: 2027-06-01 }",
          "{ plan: pro, starts: 2027-06-01, priority: 7 }, { plan: pro }",
        ),
      ),
    ).toEqual(["change subscription pro of dev@example.com: priority=7"]);
  });

  test("leaves unnamed records unchanged, and with pruning cancels and removes them", async () => {
    await apply(FILE);
    const less = `
users: [{ email: dev@example.com, subscriptions: [{ plan: pro, ends: 2027-04-30, renews: month, priority: 2 }] }]
plans:
  - { name: pro, time_zone: Europe/Berlin, windows: [{ per: month, usd: "50.00", counted: rolling }, { per: day, usd: "5" }] }
`;
    expect(await apply(less)).toEqual([]);
    await apply(`${PLANS}  - { name: unused, windows: [{ per: day, usd: "1.00" }] }`);
    expect(await apply(less, true)).toEqual([
      "remove subscription trial of dev@example.com: ",
      "remove plan unused: ",
    ]);
    expect((await listSubscriptions(gateway.db)).map(({ status }) => status)).toEqual([
      "active",
      "cancelled",
    ]);
    // The granted plan is referenced by the ledger, so it stays.
    expect((await listPlans(gateway.db)).map(({ name }) => name)).toEqual(["pro", "trial"]);
    expect(await apply(less, true)).toEqual([]);
  });

  test("grants a cancelled subscription again, and not one that has ended", async () => {
    await apply(FILE);
    for (const { id } of await listSubscriptions(gateway.db)) await cancelSubscription(gateway.db, id);
    nowMs = Date.parse("2028-01-01T00:00:00Z");
    const changes = await apply(FILE.replace("starts: 2027-01-01, ", ""));
    expect(changes).toHaveLength(1);
    expect(changes[0]).toStartWith("create subscription pro of dev@example.com");
  });

  test("removes a user together with the user's subscriptions", async () => {
    await apply(FILE);
    await apply(`${PLANS}users: [{ email: ops@example.com, role: admin }]`, true);
    expect((await listSubscriptions(gateway.db)).map(({ status }) => status)).toEqual([
      "cancelled",
      "cancelled",
    ]);
  });
});

test("an export, applied again, changes nothing, even with pruning", async () => {
  await apply(FILE);
  const [first] = await listSubscriptions(gateway.db);
  if (first === undefined) throw new Error("There is no subscription.");
  await putSubscription(gateway.db, {
    ...first,
    id: "second",
    startsAtMs: nowMs + 5,
    renews: "none",
    endsAtMs: null,
  });
  await putSubscription(gateway.db, { ...first, id: "over", startsAtMs: 0, endsAtMs: 1, renews: "none" });
  const text = await exportFile(gateway.db, gateway.clock);
  expect(text).toContain('- per: day\n        usd: "5.00"\n        counted: calendar');
  expect(text.match(/plan: pro/g)).toHaveLength(2);
  expect((await planned(text)).changes).toEqual([]);
  expect((await planned(text, true)).changes).toEqual([]);
});

describe("a wrong file is rejected with its line", () => {
  const WRONG: [name: string, text: string, says: string][] = [
    [
      "no window",
      "plans:\n  - name: p\n    windows: []",
      "3 plans[0].windows: must be a list of at least one window",
    ],
    [
      "two windows of one length",
      'plans:\n  - name: p\n    windows: [{ per: day, usd: "1" }, { per: day, usd: "2" }]',
      "3 plans[0].windows: must be a list of at least one window, each of a different length.",
    ],
    [
      "a window of zero USD",
      'plans:\n  - name: p\n    windows: [{ per: day, usd: "0.00" }]',
      '3 plans[0].windows[0].usd: must be an amount in USD like "5.00", above 0',
    ],
    [
      "an invalid time zone",
      'plans:\n  - name: p\n    time_zone: Mars/Olympus\n    windows: [{ per: day, usd: "1" }]',
      "3 plans[0].time_zone: must be the name of a time zone, like UTC or Europe/Berlin.",
    ],
    [
      "a duplicate plan",
      `${PLANS}  - name: pro\n    windows: [{ per: day, usd: "1" }]`,
      "8 plans[2].name: is used twice. Names must be unique.",
    ],
    [
      "an unknown plan of a user",
      `${PLANS}users:\n  - email: a@b.c\n    subscriptions:\n      - plan: prro`,
      '11 users[0].subscriptions[0].plan: the plan "prro" does not exist. Did you mean "pro"?',
    ],
    [
      "an unknown plan of a group",
      `${PLANS}groups:\n  - name: g\n    billing:\n      charge: subscription\n      plans: [pro, gold]`,
      '12 groups[0].billing.plans[1]: the plan "gold" does not exist. Known: pro, trial.',
    ],
    [
      "a duplicate subscription of a user, without starts",
      `${PLANS}users:\n  - email: a@b.c\n    subscriptions:\n      - plan: pro\n      - plan: pro`,
      "12 users[0].subscriptions[1].plan: appears twice for this user. Set a different `starts` for each subscription.",
    ],
    [
      "an end before the start",
      `${PLANS}users:\n  - email: a@b.c\n    subscriptions:\n      - plan: pro\n        starts: 2027-02-01\n        ends: 2027-01-01`,
      "13 users[0].subscriptions[0].ends: must be a time after starts.",
    ],
    [
      "an unknown renewal",
      `${PLANS}users:\n  - email: a@b.c\n    subscriptions:\n      - plan: pro\n        renews: monthly`,
      '12 users[0].subscriptions[0].renews: "monthly" is not allowed. Did you mean month? Allowed: none, month, year.',
    ],
  ];
  for (const [name, text, says] of WRONG) {
    test(name, () => {
      const found = rejections(text);
      expect(found).toHaveLength(1);
      expect(found[0]).toStartWith(says);
    });
  }

  test("a subscription that starts and ends on one day lasts one day", () => {
    expect(
      rejections(
        `${PLANS}users: [{ email: a@b.c, subscriptions: [{ plan: pro, starts: 2027-02-01, ends: 2027-02-01 }] }]`,
      ),
    ).toEqual([]);
  });
});
