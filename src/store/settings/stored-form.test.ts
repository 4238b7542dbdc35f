/** Settings that an earlier version stored are read, and written in the form that its nodes read. */

import { afterEach, beforeEach, expect, test } from "bun:test";
import { DEFAULT_ALERTS } from "../../records/settings.ts";
import { type Db, openDb } from "../engine/db.ts";
import { migrate } from "../engine/migrate.ts";
import {
  readAlertSettings,
  readScim,
  readSignIn,
  readSmtp,
  readToolSignIn,
  writeAlertSettings,
  writeScim,
  writeSignIn,
  writeSmtp,
  writeToolSignIn,
} from "./sections.ts";
import { readSetting, writeSetting } from "./settings.ts";
import { readUsageExport, replaceUsageExport } from "./usage-export-settings.ts";

let db: Db;
beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
});
afterEach(() => db.close());

const WEBHOOK = {
  name: "ops",
  url: "https://x.example",
  sealedSecret: "v1:k1:x",
  privateNetwork: true,
  enabled: false,
};
const RATE = { enabled: false, percent: 5, overMs: 60_000, requestsMin: 2 };
const PROVIDER = {
  name: "corp",
  issuer: "https://login.example.com",
  clientId: "gw",
  sealedSecret: null,
  privateNetwork: false,
  subjectClaim: "sub",
  groupsClaim: "groups",
  address: "verified",
  createUsers: "invited",
  domains: ["example.com"],
  requireGroup: [],
  roles: { admin: ["boss"], auditor: [] },
  groups: { staff: ["s1"] },
  signInEveryMs: 86_400_000,
  createsByScim: true,
};

/** As version 1 wrote them. */
const STORED = {
  smtp: {
    host: "smtp.example.com",
    port: 587,
    security: "starttls",
    user: "gw",
    sealedPassword: "v1:k1:x",
    from: "gw@example.com",
    privateNetwork: false,
  },
  alerts: {
    webhooks: [WEBHOOK],
    accountParked: { enabled: false },
    poolEmpty: { enabled: true, forMs: 90_000 },
    spend: { enabled: true, usdPerDay: "12.50" },
    errorRate: RATE,
    fallbackRate: RATE,
    overruns: { enabled: false, count: 7, overMs: 120_000 },
  },
  usage_export: { enabled: true, webhooks: [WEBHOOK] },
  sign_in: { password: "admins", providers: [PROVIDER] },
  scim: { provider: "corp", adoptDomains: ["example.org"], groups: "claims" },
  tool_sign_in: {
    enabled: true,
    accessTokenMs: 3_600_000,
    idleEndMs: 86_400_000,
    groups: ["staff"],
    managedSettings: { staff: { path: "cc.json", text: "{}" } },
  },
};

const REWRITE: Readonly<Record<keyof typeof STORED, () => Promise<void>>> = {
  smtp: async () => writeSmtp(db, await readSmtp(db)),
  alerts: async () => writeAlertSettings(db, await readAlertSettings(db)),
  usage_export: async () => replaceUsageExport(db, await readUsageExport(db)),
  sign_in: async () => writeSignIn(db, await readSignIn(db)),
  scim: async () => writeScim(db, await readScim(db)),
  tool_sign_in: async () => {
    const record = await readToolSignIn(db);
    if (record !== null) await writeToolSignIn(db, record);
  },
};

test.each(Object.keys(STORED) as (keyof typeof STORED)[])(
  "%s is read and written unchanged",
  async (name) => {
    await writeSetting(db, name, JSON.stringify(STORED[name]));
    await REWRITE[name]();
    expect(JSON.parse((await readSetting(db, name)) ?? "")).toEqual(STORED[name]);
  },
);

test("a provider whose directory pushes people is stored so that earlier nodes read it", async () => {
  await writeSetting(db, "sign_in", JSON.stringify(STORED.sign_in));
  expect((await readSignIn(db)).providers[0]?.createUsers).toBe("scim");
});

test("alert rules that stored settings lack have their defaults", async () => {
  const { fallbackRate: _, overruns: __, ...earlier } = STORED.alerts;
  await writeSetting(db, "alerts", JSON.stringify(earlier));
  const { fallbackRate, overruns, poolEmpty } = await readAlertSettings(db);
  expect({ fallbackRate, overruns }).toEqual({
    fallbackRate: DEFAULT_ALERTS.fallbackRate,
    overruns: DEFAULT_ALERTS.overruns,
  });
  expect(poolEmpty).toEqual(STORED.alerts.poolEmpty);
});

test.each([
  ["alerts", { ...STORED.alerts, spend: { enabled: "yes", usdPerDay: "1" } }],
  ["smtp", { ...STORED.smtp, security: "maybe" }],
  ["smtp", { host: "smtp.example.com" }],
])("a damaged setting %s is not read", async (name, stored) => {
  await writeSetting(db, name, JSON.stringify(stored));
  expect(name === "smtp" ? readSmtp(db) : readAlertSettings(db)).rejects.toThrow("is not valid");
});
