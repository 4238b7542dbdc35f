/** `doctor`: what it finds about sign-in at providers. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import {
  describeIssuer,
  type ScriptedIssuer,
  startScriptedIssuer,
} from "../../test/support/scripted-issuer.ts";
import { systemClock } from "../base/clock.ts";
import { openDeadlines } from "../base/deadlines.ts";
import { openHttpClient } from "../net/http-client/client.ts";
import type { HttpClient } from "../net/http-client/contract.ts";
import { Dialer } from "../net/http-client/dial.ts";
import { NO_LIMITS } from "../records/limits.ts";
import type { ProviderRecord } from "../records/sign-in.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { migrate } from "../store/engine/migrate.ts";
import { putUser } from "../store/identity/users.ts";
import { writeSignIn } from "../store/settings/sections.ts";
import { checkSignIn } from "./doctor-sign-in.ts";

const DISCOVERY = "/.well-known/openid-configuration";
const PUBLIC_URL = "https://llm.example.com";

let db: Db;
let issuer: ScriptedIssuer;
let http: HttpClient;
const deadlines = openDeadlines(50, systemClock);

beforeAll(() => {
  issuer = startScriptedIssuer();
  http = openHttpClient({
    deadlines,
    clock: systemClock,
    connectTimeoutMs: 5_000,
    idleMs: 1_000,
    idlePerOriginMax: 4,
    headBytesMax: 65_536,
  });
});
afterAll(async () => {
  http.close();
  deadlines.stop();
  await issuer.stop();
});
beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
});
afterEach(async () => {
  issuer.overrides.clear();
  await db.close();
});

async function configure(change: Partial<ProviderRecord> = {}): Promise<void> {
  const provider: ProviderRecord = {
    name: "corp",
    issuer: issuer.issuer,
    clientId: "gateway",
    sealedSecret: null,
    privateNetwork: true,
    subjectClaim: "sub",
    groupsClaim: "groups",
    address: "verified",
    createUsers: "on_sign_in",
    domains: [],
    requireGroup: [],
    roles: { admin: [], auditor: [] },
    groups: {},
    signInEveryMs: null,
    ...change,
  };
  await writeSignIn(db, { password: "admins", providers: [provider] });
}

const check = (publicUrl = PUBLIC_URL) =>
  checkSignIn({
    db,
    keyring: { activeKid: "k1", get: () => null },
    settings: { publicUrl },
    connections: { dialer: new Dialer({ clock: systemClock, lookupTimeoutMs: 1_000, cacheMs: 1_000 }), http },
  });

async function addAdministrator(): Promise<void> {
  const user = { id: "u1", email: "root@example.com", role: "admin", status: "active" } as const;
  await putUser(db, { ...user, passwordHash: "hash", limits: NO_LIMITS, groups: [], createdAtMs: 0 });
}

test("nothing is checked without a provider", async () => {
  expect(await check()).toEqual([]);
});

test("the redirect URI of a provider that responds is printed", async () => {
  await configure();
  await addAdministrator();
  expect(await check()).toEqual([
    {
      what: "sign-in corp",
      state: "good",
      message: `${issuer.issuer} responds. Redirect URI: ${PUBLIC_URL}/console/sign-in/callback`,
      todo: null,
    },
  ]);
});

test("a public URL without https is broken, on this machine doubtful", async () => {
  await configure();
  await addAdministrator();
  expect((await check("http://llm.example.com"))[0]).toMatchObject({ what: "sign-in", state: "broken" });
  expect((await check("http://localhost:8787"))[0]).toMatchObject({ what: "sign-in", state: "doubtful" });
});

test("an issuer that names another one, does not respond, or is in a private network is broken", async () => {
  await addAdministrator();
  await configure();
  issuer.overrides.set(DISCOVERY, () => Response.json(describeIssuer("https://other.example.com")));
  expect(await check()).toMatchObject([
    { state: "broken", todo: "Set issuer exactly as the provider shows it." },
  ]);
  issuer.overrides.set(DISCOVERY, () => new Response("down", { status: 503 }));
  expect((await check())[0]?.message).toContain("HTTP 503");
  await configure({ issuer: "https://127.0.0.1:1", privateNetwork: false });
  expect((await check())[0]?.message).toContain("private_network");
});

test("a clock that differs is doubtful", async () => {
  await addAdministrator();
  await configure();
  issuer.overrides.set(DISCOVERY, () =>
    Response.json(describeIssuer(issuer.issuer), {
      headers: { date: new Date(Date.now() - 120_000).toUTCString() },
    }),
  );
  const [, clock] = await check();
  expect(clock).toMatchObject({ what: "sign-in corp", state: "doubtful" });
  expect(clock?.message).toMatch(/differ by 1(19|2\d) seconds/);
});

test("an installation without an administrator with a password is doubtful", async () => {
  await configure();
  expect((await check()).at(-1)).toMatchObject({
    state: "doubtful",
    message: "no administrator can sign in with a password while the provider is down",
  });
});
