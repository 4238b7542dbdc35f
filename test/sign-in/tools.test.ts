/** Sign-in of tools through a running gateway: device codes, tokens, settings and the end of a sign-in. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { applyChanges, planChanges } from "../../src/config/plan/apply.ts";
import { findUserByEmail, putUser } from "../../src/store/identity/users.ts";
import { countTools } from "../../src/store/policy/tool-keys.ts";
import { endIdleTools } from "../../src/store/policy/tool-tokens.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { type EngineUnderTest, eachEngine } from "../support/each-engine.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { ToolClient } from "../support/tool-client.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const FILE = `
groups:
  - { name: closed, access: members, models: [fast-chat], accounts: [sim] }
tool_sign_in:
  groups: [closed, default]
`;

let gateway: RunningGateway;
let tool: ToolClient;
let ada: SignedInClient;
/** Added to the clock of the gateway. */
let offsetMs = 0;
const clock: Clock = {
  nowMs: () => systemClock.nowMs() + offsetMs,
  monotonicMs: () => systemClock.monotonicMs(),
};

function useGateway(engine: EngineUnderTest): void {
  beforeAll(async () => {
    gateway = await startTestGateway({ databaseUrl: await engine.emptyUrl(), clock });
    tool = new ToolClient(gateway.url);
    ada = await signInAs(gateway, "ada@example.com");
    await gateway.apply(FILE);
    await tool.ready();
  });
  afterAll(() => gateway.stop());
}

/** A new person, so that the lists and bounds of one test do not depend on another. */
let people = 0;
function newPerson(): Promise<SignedInClient> {
  people += 1;
  // Sessions end after twelve hours without use, and tests move the clock.
  return signInAs(gateway, `person-${people}@example.com`);
}

eachEngine((engine) => {
  useGateway(engine);

  describe("the sign-in", () => {
    test("needs no client id: a code, its approval, tokens that call models", async () => {
      const metadata = await (await tool.metadata()).json();
      expect(metadata).toMatchObject({
        issuer: gateway.url,
        device_authorization_endpoint: `${gateway.url}/oauth/device_authorization`,
        token_endpoint: `${gateway.url}/oauth/token`,
      });
      const { userCode, deviceCode, page } = await tool.start();
      expect(userCode).toMatch(/^[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}$/);
      expect(page).toBe(`${gateway.url}/device?user_code=${userCode}`);
      expect(await tool.poll(deviceCode)).toMatchObject({ status: 400, error: "authorization_pending" });
      const found = await ada.call("tools.find", {
        body: { user_code: userCode.toLowerCase().replace("-", " ") },
      });
      expect(found).toMatchObject({ is_own_address: true, groups: ["default"] });
      await ada.call("tools.approve", { body: { user_code: userCode, name: "laptop", group: "default" } });
      offsetMs += 11_000;
      const tokens = await tool.poll(deviceCode);
      expect(tokens).toMatchObject({ status: 200, error: null });
      expect(tokens.expiresIn).toBeWithin(3_240, 3_601);
      expect((await tool.callModel(tokens.access)).status).toBe(200);
      const { data } = await ada.call("tools.list");
      expect(data).toMatchObject([{ name: "laptop", group: "default", address: "127.0.0.1" }]);
      const [key] = (await ada.call("keys.list")).data;
      expect(key).toMatchObject({ id: data[0]?.id ?? "", is_tool: true, name: "laptop" });
    });

    test("a short address on paper leads to the page with the code", async () => {
      const response = await fetch(`${gateway.url}/device?user_code=BCDF-GHJK`, { redirect: "manual" });
      expect(response.headers.get("location")).toBe("/console/device?user_code=BCDF-GHJK");
    });

    test("a poll that is too early gets slow_down, with a longer pause each time", async () => {
      const { deviceCode } = await tool.start();
      await tool.poll(deviceCode);
      expect(await tool.poll(deviceCode)).toMatchObject({ status: 400, error: "slow_down" });
      offsetMs += 6_000;
      expect((await tool.poll(deviceCode)).error).toBe("slow_down");
      offsetMs += 16_000;
      expect((await tool.poll(deviceCode)).error).toBe("authorization_pending");
    });

    test("a rejected one ends with access_denied, an old one with expired_token", async () => {
      const denied = await tool.start();
      await ada.call("tools.deny", { body: { user_code: denied.userCode } });
      expect(await tool.poll(denied.deviceCode)).toMatchObject({ status: 400, error: "access_denied" });
      const late = await tool.start();
      offsetMs += 10 * MINUTE_MS + 1;
      expect(await tool.poll(late.deviceCode)).toMatchObject({ status: 400, error: "expired_token" });
      expect(await ada.callRejected("tools.find", { body: { user_code: late.userCode } })).toMatchObject({
        status: 404,
        param: "user_code",
      });
    });

    test("is in the audit log, whose chain is intact", async () => {
      const admin = await signInAs(gateway, "root@example.com", "admin");
      const actions = (await admin.call("admin.audit.list")).data.map(({ action }) => action);
      for (const action of ["tool.approve", "tool.sign_in", "tool.deny"]) expect(actions).toContain(action);
      expect((await admin.call("admin.audit.verify", { query: { fresh: true } })).broken).toEqual([]);
    });
  });

  describe("tokens", () => {
    test("are refreshed while the old access token works until its own end", async () => {
      const first = await tool.signIn(await newPerson(), "refreshed");
      offsetMs += 30 * MINUTE_MS;
      const second = await tool.refresh(first.refresh);
      expect(second).toMatchObject({ status: 200 });
      expect(second.access).not.toBe(first.access);
      expect((await tool.callModel(first.access)).status).toBe(200);
      expect((await tool.callModel(second.access)).status).toBe(200);
      offsetMs += 31 * MINUTE_MS;
      expect((await tool.callModel(first.access)).status).toBe(401);
      expect((await tool.callModel(second.access)).status).toBe(200);
    });

    test("two terminals that share a file both get successors of one refresh token", async () => {
      const { refresh } = await tool.signIn(await newPerson(), "two terminals");
      const replies = await Promise.all([tool.refresh(refresh), tool.refresh(refresh)]);
      expect(replies.map(({ status }) => status)).toEqual([200, 200]);
      expect(replies[0]?.refresh).not.toBe(replies[1]?.refresh);
      for (const { access } of replies) expect((await tool.callModel(access)).status).toBe(200);
      expect((await tool.refresh(replies[0]?.refresh ?? "")).status).toBe(200);
    });

    test("an ended one asks to sign in again and does not count as an invalid key", async () => {
      const { access } = await tool.signIn(await newPerson(), "ended");
      offsetMs += HOUR_MS + 1;
      for (let i = 0; i < 150; i++) {
        const response = await tool.callModel(access);
        expect(response.status).toBe(401);
        expect(await response.text()).toContain("Sign in again");
      }
    });

    test("a sign-in that was revoked by its tool ends at once, and stays known for a day", async () => {
      const person = await newPerson();
      const { access, refresh } = await tool.signIn(person, "revoked");
      expect((await tool.revoke(refresh)).status).toBe(200);
      const response = await tool.callModel(access);
      expect(response.status).toBe(401);
      expect(await response.text()).toContain("Sign in again");
      expect(await tool.refresh(refresh)).toMatchObject({ status: 401, error: "invalid_grant" });
      expect((await tool.revoke("gwr_unknown")).status).toBe(200);
      expect((await person.call("tools.list")).data).toEqual([]);
    });

    test("an unused sign-in ends after 14 days, and its key is revoked", async () => {
      const person = await newPerson();
      const { refresh } = await tool.signIn(person, "unused");
      offsetMs += 14 * 24 * HOUR_MS + 1;
      expect(await tool.refresh(refresh)).toMatchObject({ status: 401, error: "invalid_grant" });
      const { db } = gateway.installation;
      await endIdleTools(db, clock.nowMs(), 500);
      expect(await countTools(db, person.user.id)).toBe(0);
    });

    test("the person ends it in the profile", async () => {
      const person = await newPerson();
      const { access, refresh } = await tool.signIn(person, "lost laptop");
      const [listed] = (await person.call("tools.list")).data;
      await person.call("keys.revoke", { params: { id: listed?.id ?? "" } });
      expect((await tool.callModel(access)).status).toBe(401);
      expect((await tool.refresh(refresh)).status).toBe(401);
    });

    test("neither the owner nor a page prolongs the key of a tool", async () => {
      const person = await newPerson();
      await tool.signIn(person, "fixed");
      const [key] = (await person.call("keys.list")).data;
      const params = { id: key?.id ?? "" };
      expect((await person.callRejected("keys.edit", { params, body: { expires_at: null } })).code).toBe(
        "conflict",
      );
      expect((await person.callRejected("keys.rotate", { params, body: {} })).code).toBe("conflict");
    });

    test("a refresh checks the person and the group", async () => {
      const { db } = gateway.installation;
      const person = await newPerson();
      const group = (await db.sql`SELECT id FROM key_group WHERE name = 'closed'`)[0]?.id as string;
      await putUser(db, { ...person.user, groups: [group] });
      const { refresh } = await tool.signIn(person, "member", "closed");
      const kept = await tool.refresh(refresh);
      expect(kept.status).toBe(200);
      await putUser(db, { ...person.user, groups: [] });
      expect(await tool.refresh(kept.refresh)).toMatchObject({ status: 401, error: "invalid_grant" });
      await putUser(db, { ...person.user, groups: [group], status: "disabled" });
      expect((await tool.refresh(kept.refresh)).status).toBe(401);
      expect((await findUserByEmail(db, person.user.email))?.status).toBe("disabled");
    });
  });

  describe("what a signed-in tool reads", () => {
    const settings = { permissions: { deny: ["WebFetch"] }, env: { TEAM: "ml" } };
    const withSettings = `${FILE}
  claude_code: { managed_settings: { default: ./claude.json } }`;

    async function applyOnHost(text: string): Promise<void> {
      const source = {
        text,
        fileName: "gateway.yaml",
        environment: {},
        readFile: () => JSON.stringify(settings, null, 2),
      };
      const planned = await planChanges(gateway.installation, source, { prune: false });
      if (!planned.ok) throw new Error(JSON.stringify(planned.problems));
      await applyChanges(gateway.installation, planned.plan);
    }

    test("no settings are 404; settings have a checksum, and are not sent twice", async () => {
      const { access } = await tool.signIn(await newPerson(), "settings");
      expect((await tool.get("/managed/settings", access)).status).toBe(404);
      await applyOnHost(withSettings);
      const response = await eventually(async () => {
        const read = await tool.get("/managed/settings", access);
        return read.status === 404 ? null : read;
      });
      const body: unknown = await response.json();
      expect(body).toEqual({
        uuid: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/),
        checksum: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        settings,
      });
      const etag = response.headers.get("etag") ?? "";
      expect(body).toHaveProperty("checksum", JSON.parse(etag));
      const again = await tool.get("/managed/settings", access, { "if-none-match": etag });
      expect(again.status).toBe(304);
    });

    test("neither the console nor a token changes settings that run commands on other computers", async () => {
      const admin = await signInAs(gateway, "root@example.com", "admin");
      const plan = (text: string) => admin.call("admin.config.plan", { body: { text, prune: false } });
      expect((await plan(withSettings)).problems).toEqual([]);
      for (const text of [withSettings.replace("claude.json", "other.json"), FILE])
        expect((await plan(text)).problems).toHaveLength(1);
      const actions = await admin.call("admin.audit.list", { query: { search: "tool_sign_in" } });
      expect(JSON.stringify(actions.data)).toContain("./claude.json sha256:");
    });

    test("an exported file can be applied again without a change", async () => {
      const admin = await signInAs(gateway, "root@example.com", "admin");
      const { text } = await admin.call("admin.config.export");
      expect(text).toContain("./claude.json");
      const { problems, changes } = await admin.call("admin.config.plan", { body: { text, prune: true } });
      expect({ problems, tools: changes.filter(({ what }) => what.includes("settings")) }).toEqual({
        problems: [],
        tools: [],
      });
      expect(changes.filter(({ kind, what }) => kind === "remove" && what.startsWith("key "))).toEqual([]);
    });

    test("telemetry is discarded, also chunked, and bounded", async () => {
      const { access } = await tool.signIn(await newPerson(), "telemetry");
      const send = (path: string, size: number) =>
        fetch(gateway.url + path, {
          method: "POST",
          headers: { authorization: `Bearer ${access}`, "content-type": "application/x-protobuf" },
          body: new ReadableStream({
            start(controller) {
              for (let sent = 0; sent < size; sent += 65_536) controller.enqueue(new Uint8Array(65_536));
              controller.close();
            },
          }),
        });
      expect((await send("/v1/metrics", 65_536)).status).toBe(200);
      expect((await send("/v1/logs", 2 ** 20)).status).toBe(200);
      expect((await send("/v1/logs", 5 * 2 ** 20)).status).toBe(413);
    });
  });
});

test("without tool_sign_in none of the paths exists", async () => {
  const plain = await startTestGateway();
  const off = new ToolClient(plain.url);
  expect((await off.metadata()).status).toBe(404);
  expect((await off.startRaw()).status).toBe(404);
  expect((await off.post("/oauth/token", { grant_type: "refresh_token" })).status).toBe(404);
  expect((await off.get("/managed/settings", "x")).status).toBe(404);
  expect((await off.post("/v1/metrics", {})).status).toBe(404);
  await plain.stop();
});
