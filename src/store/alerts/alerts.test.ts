import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import {
  type AlertRecord,
  claimDeliveries,
  closeAlert,
  listAlerts,
  listOpenAlerts,
  openAlert,
  recordDelivery,
  removeAlerts,
} from "./alerts.ts";

const alert = (change: Partial<AlertRecord> = {}): AlertRecord => ({
  id: "alert_1",
  rule: "account_parked",
  subject: "acct_1",
  node: "here:1",
  message: "Account a is parked.",
  details: { account: "a", tries: 3 },
  startedAtMs: 1_000,
  endedAtMs: null,
  ...change,
});
const delivery = (id: string, event: "firing" | "resolved") => ({ id, event, webhook: "ops", body: "{}" });

eachEngine(({ open }) => {
  test("an alert is open once per rule, subject and node, until it is closed", async () => {
    const db = await open();
    expect(await openAlert(db, alert(), [])).toBe(true);
    expect(await openAlert(db, alert({ id: "alert_2" }), [delivery("d0", "firing")])).toBe(false);
    expect(await openAlert(db, alert({ id: "alert_3", node: "there:1" }), [])).toBe(true);
    expect(await listOpenAlerts(db, "here:1")).toEqual([alert()]);
    expect(await closeAlert(db, "alert_1", 2_000, [])).toBe(true);
    expect(await closeAlert(db, "alert_1", 3_000, [])).toBe(false);
    expect(await listOpenAlerts(db, "here:1")).toEqual([]);
    expect(await openAlert(db, alert({ id: "alert_4" }), [])).toBe(true);
  });

  test("a rule that an earlier version does not know is stored so that its nodes read it and leave it open", async () => {
    const db = await open();
    const later = alert({ rule: "directory_shrinks", subject: "corp", node: "" });
    expect(await openAlert(db, later, [])).toBe(true);
    expect(await openAlert(db, { ...later, id: "alert_2" }, [])).toBe(false);
    expect(await listOpenAlerts(db, "here:1")).toEqual([later]);
    const [row] = await db.sql`SELECT rule, node FROM alert`;
    // Earlier nodes close only alerts of their own and those without a node.
    expect(row).toEqual({ rule: "account_parked", node: "*" });
    const ours = alert({ id: "alert_3", rule: "fallback_rate", subject: "", node: "here:1" });
    expect(await openAlert(db, ours, [])).toBe(true);
    expect(await openAlert(db, { ...ours, id: "alert_4", node: "there:1" }, [])).toBe(true);
    expect(await listOpenAlerts(db, "here:1")).toEqual([later, ours]);
  });

  test("a delivery is claimed once, claimed again when due, and resolved is sent after firing", async () => {
    const db = await open();
    await openAlert(db, alert(), [delivery("d1", "firing")]);
    await closeAlert(db, "alert_1", 1_500, [delivery("d2", "resolved")]);
    const [first, second] = await Promise.all([
      claimDeliveries(db, 2_000, 5_000, 10),
      claimDeliveries(db, 2_000, 5_000, 10),
    ]);
    expect([...first, ...second]).toMatchObject([{ id: "d1", attempts: 1, event: "firing" }]);
    expect(await claimDeliveries(db, 4_999, 9_000, 10)).toEqual([]);
    expect(await claimDeliveries(db, 5_000, 9_000, 10)).toMatchObject([{ id: "d1", attempts: 2 }]);
    await recordDelivery(db, "d1", { state: "delivered", response: "HTTP 200", dueAtMs: null, nowMs: 5_100 });
    expect(await claimDeliveries(db, 5_200, 9_000, 10)).toMatchObject([{ id: "d2", event: "resolved" }]);
  });

  test("alerts are listed newest first with their deliveries, and deleted after retention", async () => {
    const db = await open();
    for (const i of [1, 2, 3]) {
      const one = alert({ id: `alert_${i}`, subject: `acct_${i}`, startedAtMs: i * 1_000 });
      await openAlert(db, one, [delivery(`d${i}`, "firing")]);
    }
    await closeAlert(db, "alert_1", 1_500, []);
    const top = await listAlerts(db, { after: null, limit: 2 });
    expect(top.alerts.map(({ id, deliveries }) => [id, deliveries.map((one) => one.id)])).toEqual([
      ["alert_3", ["d3"]],
      ["alert_2", ["d2"]],
    ]);
    const rest = await listAlerts(db, { after: top.next, limit: 2 });
    expect(rest.alerts.map(({ id }) => id)).toEqual(["alert_1"]);
    expect(rest.next).toBeNull();
    await removeAlerts(db, 1_600);
    const left = await listAlerts(db, { after: null, limit: 10 });
    expect(left.alerts.map(({ id }) => id)).toEqual(["alert_3", "alert_2"]);
  });
});
