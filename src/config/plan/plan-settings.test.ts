import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { systemClock, uuidV7 } from "../../base/clock.ts";
import { SMTP_PASSWORD_BINDING, unseal, webhookSecretBinding } from "../../secrets/seal.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { readRegistration } from "../../store/settings/registration.ts";
import { rewrapSecrets } from "../../store/settings/rotate.ts";
import { readAlertSettings, readSmtp } from "../../store/settings/sections.ts";
import { readUsageExport } from "../../store/settings/usage-export-settings.ts";
import { readFeed } from "../../store/usage-feed/feed.ts";
import { exportFile } from "../export/export.ts";
import { applyChanges, planChanges } from "./apply.ts";

const keys = new Map([
  ["k1", randomBytes(32)],
  ["k2", randomBytes(32)],
]);
const createKeyring = (activeKid: string) => ({ activeKid, get: (kid: string) => keys.get(kid) ?? null });

let db: Db;
beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
});
afterEach(() => db.close());

const installation = () => ({
  db,
  keyring: createKeyring("k1"),
  digest: (secret: string) => secret,
  clock: systemClock,
  newId: uuidV7,
  randomBytes,
});

async function plan(text: string) {
  return planChanges(installation(), { text, fileName: "gateway.yaml", environment: {} }, { prune: false });
}

async function apply(text: string) {
  const planned = await plan(text);
  if (!planned.ok) throw new Error(planned.problems.map(({ message }) => message).join("\n"));
  await applyChanges(installation(), planned.plan);
  return planned.plan.changes.map(({ kind, what, fields }) => ({ kind, what, fields }));
}

async function rejection(text: string): Promise<string[]> {
  const planned = await plan(text);
  return planned.ok ? [] : planned.problems.map(({ field, message }) => `${field}: ${message}`);
}

const SMTP = `smtp:
  host: smtp.example.com
  user: gw
  password: p4ss-canary
  from: Gateway <gw@example.com>
`;
const ALERTS = `alerts:
  webhooks:
    - { name: ops, url: "https://hooks.example.com/x?room=1", secret: s3cret-canary-0001 }
  spend: { enabled: true, usd_per_day: "12.50" }
`;

const USAGE_EXPORT = `usage_export:
  webhooks:
    - { name: warehouse, url: "https://ingest.example.com/x", secret: s3cret-canary-0002 }
`;

describe("the usage export in the file", () => {
  test("is applied once, starts the feed, and is exported without its secret", async () => {
    expect(await exportFile(db)).not.toMatch(/^usage_export:/m);
    const changes = await apply(USAGE_EXPORT);
    expect(changes.map(({ what }) => what)).toEqual(["usage_export"]);
    expect(changes[0]?.fields).toContainEqual({ field: "enabled", from: "false", to: "true" });
    expect(JSON.stringify(changes)).not.toContain("canary");
    expect(await apply(USAGE_EXPORT)).toEqual([]);
    expect(await readFeed(db)).toMatchObject({ isEnabled: true });
    const text = await exportFile(db);
    expect(text).toContain("    - name: warehouse\n      # secret: stored, not exported\n");
    expect(text).not.toContain("canary");
    expect(await apply(text)).toEqual([]);
    expect((await readUsageExport(db)).webhooks[0]?.sealedSecret).not.toBeNull();
  });

  test("keeps the feed while only webhooks change, and begins another when it is enabled again", async () => {
    await apply(USAGE_EXPORT);
    const first = await readFeed(db);
    await apply("usage_export: {}\n");
    expect((await readUsageExport(db)).webhooks).toEqual([]);
    expect(await readFeed(db)).toEqual(first);
    await apply("models: []\n");
    expect(await readFeed(db)).toEqual(first);
    await apply("usage_export: { enabled: false }\n");
    expect(await readFeed(db)).toMatchObject({ id: first?.id ?? "", isEnabled: false });
    await apply("usage_export: {}\n");
    expect((await readFeed(db))?.id).not.toBe(first?.id ?? "");
  });

  test("its secrets are resealed with a new master key", async () => {
    await apply(USAGE_EXPORT);
    expect(await rewrapSecrets(db, createKeyring("k2"))).toBe(1);
    const sealed = (await readUsageExport(db)).webhooks[0]?.sealedSecret ?? "";
    expect(sealed).toStartWith("v1:k2:");
    expect(unseal(createKeyring("k2"), webhookSecretBinding("usage_export", "warehouse"), sealed)).toBe(
      "s3cret-canary-0002",
    );
    expect(await readFeed(db)).toMatchObject({ isEnabled: true });
  });
});

describe("settings in the file", () => {
  test("registration is unchanged if the file omits it", async () => {
    expect(await readRegistration(db)).toBe("closed");
    expect(await apply("registration: invite")).toEqual([
      {
        kind: "change",
        what: "registration",
        fields: [{ field: "registration", from: "closed", to: "invite" }],
      },
    ]);
    expect(await apply("models: []")).toEqual([]);
    expect(await readRegistration(db)).toBe("invite");
  });

  test("smtp and alerts are applied once, and changes contain no secrets", async () => {
    const changes = await apply(SMTP + ALERTS);
    expect(changes.map(({ what }) => what)).toEqual(["smtp", "alerts"]);
    expect(JSON.stringify(changes)).not.toContain("canary");
    expect(await apply(SMTP + ALERTS)).toEqual([]);
    const smtp = await readSmtp(db);
    expect(smtp).toMatchObject({ port: 587, security: "starttls", privateNetwork: false });
    expect(JSON.stringify(smtp)).not.toContain("canary");
    expect(unseal(createKeyring("k1"), SMTP_PASSWORD_BINDING, smtp?.sealedPassword ?? "")).toBe(
      "p4ss-canary",
    );
    expect(await readAlertSettings(db)).toMatchObject({ spend: { enabled: true, usdPerDay: "12.50" } });
  });

  test("are exported without secrets, and applying the export changes nothing", async () => {
    expect(await exportFile(db)).not.toMatch(/^(smtp|alerts):/m);
    await apply(`${SMTP}${ALERTS}registration: open\n`);
    const text = await exportFile(db);
    expect(text).toContain("registration: open");
    expect(text).toContain("smtp.example.com");
    expect(text).not.toContain("canary");
    expect(text).toContain("  host: smtp.example.com\n  # password: stored, not exported\n");
    expect(text).toContain("    - name: ops\n      # secret: stored, not exported\n");
    expect(await apply(text)).toEqual([]);
    expect((await readSmtp(db))?.sealedPassword).not.toBeNull();
    expect((await readAlertSettings(db)).webhooks[0]?.sealedSecret).not.toBeNull();
  });

  test("are exported with their defaults, and applying the export changes nothing", async () => {
    await apply("alerts: { webhooks: [{ name: ops, url: 'https://hooks.example.com/x' }] }\n");
    expect(await apply(await exportFile(db))).toEqual([]);
  });

  test("a stored SMTP password is not used for another server or user", async () => {
    const bare = SMTP.replace(/ {2}password.*\n/, "");
    await apply(SMTP);
    for (const moved of [bare.replace("smtp.example", "other.example"), bare.replace("gw\n", "gw2\n")])
      expect(await rejection(moved)).toEqual([
        "smtp.password: must be entered again: the stored password belongs to another server or user.",
      ]);
    expect(await readSmtp(db)).toMatchObject({ host: "smtp.example.com", user: "gw" });
    await apply(bare.replace("smtp.example", "other.example").replace("  user: gw\n", ""));
    expect(await readSmtp(db)).toMatchObject({ host: "other.example.com", sealedPassword: null });
  });

  test("an SMTP user needs a password, which an export from another gateway does not contain", async () => {
    const [first] = await rejection(SMTP.replace(/ {2}password.*\n/, ""));
    expect(first).toStartWith("smtp.password: is missing, and no password is stored.");
  });

  test("smtp can be disabled, and omitted alert settings return to their defaults", async () => {
    await apply(SMTP + ALERTS);
    await apply("smtp: { enabled: false }\nalerts: {}\n");
    expect(await readSmtp(db)).toBeNull();
    expect(await readAlertSettings(db)).toMatchObject({ webhooks: [], spend: { enabled: false } });
  });

  test("their secrets are resealed with a new master key", async () => {
    await apply(SMTP + ALERTS);
    expect(await rewrapSecrets(db, createKeyring("k2"))).toBe(2);
    const onlyNew = {
      activeKid: "k2",
      get: (kid: string) => (kid === "k2" ? (keys.get(kid) ?? null) : null),
    };
    expect(unseal(onlyNew, SMTP_PASSWORD_BINDING, (await readSmtp(db))?.sealedPassword ?? "")).toBe(
      "p4ss-canary",
    );
    const sealed = (await readAlertSettings(db)).webhooks[0]?.sealedSecret ?? "";
    expect(unseal(onlyNew, webhookSecretBinding("alerts", "ops"), sealed)).toBe("s3cret-canary-0001");
    expect(await rewrapSecrets(db, createKeyring("k2"))).toBe(0);
  });

  test.each([
    ["smtp: { host: smtp.example.com }", "smtp.from: is missing."],
    ["smtp: { from: a@b.c }", "smtp.host: is missing."],
    ["smtp: { host: a.b, from: a@b.c, password: x }", "smtp.user: is missing."],
    ["smtp: { host: a.b, from: a@b.c, user: x, security: none }", "smtp.security: must be tls or starttls"],
    ["smtp: { host: a.b, from: sender }", "smtp.from: must be an e-mail address, or a name and an address"],
    [
      "alerts: { webhooks: [{ name: a, url: 'https://u:p@x.y' }] }",
      "alerts.webhooks[0].url: must be an http",
    ],
    [
      "alerts: { webhooks: [{ name: a, url: 'https://x.y' }, { name: a, url: 'https://z.y' }] }",
      "alerts.webhooks: must be a list with unique names",
    ],
    ["alerts: { error_rate: { over: 2h } }", "alerts.error_rate.over: must be a duration from 1m to 1h"],
    ["alerts: { spend: { usd_per_day: '0' } }", "alerts.spend.usd_per_day: must be an amount"],
    ["registration: maybe", 'registration: "maybe" is not allowed.'],
  ])("%s is rejected", async (text, says) => {
    const [first] = await rejection(text);
    expect(first).toStartWith(says);
  });
});
