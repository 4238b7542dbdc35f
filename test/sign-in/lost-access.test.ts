/** People who lose access without a sign-in: because they have not signed in for too long, and many of them at once. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { startSweepingSessions } from "../../src/console-api/auth/delete-expired-sessions.ts";
import { applyWholeDirectory } from "../../src/console-api/scim/apply-directory.ts";
import { endPersonAccess, suspendOverduePeople } from "../../src/console-api/sign-in/end-access.ts";
import { NO_LIMITS } from "../../src/records/limits.ts";
import { insertIdentity } from "../../src/store/identity/external-identities.ts";
import { findUserByEmail, putUser } from "../../src/store/identity/users.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { type EngineUnderTest, eachEngine } from "../support/each-engine.ts";
import { eventually } from "../support/eventually.ts";
import { CLIENT, type OpenidProvider, startOpenidProvider } from "../support/openid-provider.ts";
import { ProviderBrowser } from "../support/provider-browser.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

setDefaultTimeout(60_000);

const DAY_MS = 86_400_000;

let gateway: RunningGateway;
let provider: OpenidProvider;
let admin: SignedInClient;

function useGateway(engine: EngineUnderTest): void {
  beforeAll(async () => {
    gateway = await startTestGateway({ databaseUrl: await engine.emptyUrl() });
    provider = await startOpenidProvider([`${gateway.url}/console/sign-in/callback`]);
    await gateway.apply(`
groups:
  - { name: engineering, access: members, models: [fast-chat], accounts: [sim] }
sign_in:
  providers:
    - name: corp
      issuer: ${provider.issuer}
      client_id: ${CLIENT.id}
      client_secret: ${CLIENT.secret}
      private_network: true
      groups: { engineering: [eng-all] }
      sign_in_every: 30d
`);
    admin = await signInAs(gateway, "root@example.com", "admin");
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });
}

async function signIn(subject: string): Promise<ProviderBrowser> {
  provider.people.set(subject, {
    email: `${subject}@example.com`,
    email_verified: true,
    groups: ["eng-all"],
  });
  const browser = new ProviderBrowser(gateway);
  const reply = await browser.finish(await provider.visit(await browser.start("corp"), subject));
  expect(reply.status).toBe(200);
  return browser;
}

/** Waits until the running gateway knows the group of the file. */
async function createKey(browser: ProviderBrowser): Promise<string> {
  const { body } = await eventually(async () => {
    const reply = await browser.post("/api/keys", { name: "tool", group: "engineering" });
    return reply.status === 200 ? reply : null;
  });
  return String(body.secret);
}

async function callModel(secret: string): Promise<number> {
  const body = { model: "fast-chat", messages: [{ role: "user", content: "Hello" }] };
  const headers = { authorization: `Bearer ${secret}` };
  const response = await gateway.call("/v1/chat/completions", body, { headers });
  await response.text();
  return response.status;
}

eachEngine((engine) => {
  useGateway(engine);

  test("sign_in_every suspends the keys of a leaver and ends the session, until the next sign-in", async () => {
    const leaver = await signIn("leaver");
    const colleague = await signIn("colleague");
    const secrets = { leaver: await createKey(leaver), colleague: await createKey(colleague) };
    const { db, clock } = gateway.installation;
    const user = await findUserByEmail(db, "leaver@example.com");
    const signedInAtMs = clock.nowMs() - 30 * DAY_MS - 1;
    await db.sql`UPDATE external_identity SET signed_in_at_ms = ${signedInAtMs} WHERE user_id = ${user?.id ?? ""}`;
    const sweeper = startSweepingSessions(gateway.installation, {
      log: { info() {}, warn() {}, error() {} },
      sweepMs: 20,
      runJob: async (work) => work({ name: "sessions", fence: 1, check: async () => {} }),
      suspendOverduePeople: () => suspendOverduePeople(gateway.installation),
      applyWholeDirectory: () => applyWholeDirectory(gateway.installation),
    });
    await eventually(async () => (await leaver.get("/api/keys")).status, { equals: 401 });
    sweeper.stop();
    await eventually(() => callModel(secrets.leaver), { equals: 401 });
    expect(await callModel(secrets.colleague)).toBe(200);
    expect((await colleague.get("/api/keys")).status).toBe(200);
    const [change] = (await admin.call("admin.audit.list")).data;
    expect(change).toMatchObject({ action: "directory.suspend", target: "user leaver@example.com" });
    await signIn("leaver");
    expect(await callModel(secrets.leaver)).toBe(200);
  });

  test("many people who lose access at once raise an alert, and one action restores them", async () => {
    const browser = await signIn("ada");
    const secret = await createKey(browser);
    const { installation } = gateway;
    const nowMs = installation.clock.nowMs();
    // With the three people above, eleven are more than 20 % of 40.
    for (let i = 0; i < 37; i++) {
      const id = installation.newId("user");
      await putUser(installation.db, {
        id,
        email: `person-${i}@example.com`,
        role: "user",
        status: "active",
        passwordHash: null,
        limits: NO_LIMITS,
        groups: [],
        createdAtMs: nowMs,
      });
      const times = { createdAtMs: nowMs, signedInAtMs: nowMs, suspendedAtMs: null };
      const person = {
        userId: id,
        issuer: provider.issuer,
        subject: `person-${i}`,
        provider: "corp",
        ...times,
      };
      await insertIdentity(installation.db, person, "user");
    }
    const lose = (subject: string) =>
      endPersonAccess(installation, { issuer: provider.issuer, subject }, "required group lost");
    for (const subject of ["ada", ...Array.from({ length: 9 }, (_, i) => `person-${i}`)]) await lose(subject);
    // Ten are not more than ten.
    expect((await admin.call("admin.directory.losses")).data).toEqual([]);
    await lose("person-9");
    expect((await admin.call("admin.directory.losses")).data).toMatchObject([
      { provider: "corp", suspended: 11, people: 40 },
    ]);
    await eventually(() => callModel(secret), { equals: 401 });
    const isAlerted = async (ended: boolean) => {
      const { data } = await admin.call("admin.alerts.list");
      return data.some(({ rule, ended_at: at }) => rule === "directory_shrinks" && (at !== null) === ended);
    };
    await eventually(() => isAlerted(false), 30_000);
    const body = { provider: "corp" };
    expect(await admin.call("admin.directory.restore", { body })).toEqual({ people: 11, keys: 1 });
    expect(await callModel(secret)).toBe(200);
    expect((await admin.call("admin.directory.losses")).data).toEqual([]);
    expect(await admin.call("admin.directory.restore", { body })).toEqual({ people: 0, keys: 0 });
    // The session had ended: only a sign-in begins one.
    expect((await browser.get("/api/keys")).status).toBe(401);
    await eventually(() => isAlerted(true), 30_000);
    expect((await admin.call("admin.audit.verify", { query: { fresh: true } })).broken).toEqual([]);
  });
});
