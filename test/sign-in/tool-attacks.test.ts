/** Attacks on the sign-in of tools. Each fails, and does not end what honest tools and people do. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import {
  createServiceClient,
  createTokenClient,
  openConsoleClient,
  type SignedInClient,
  signInAs,
} from "../support/console-client.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { ToolClient } from "../support/tool-client.ts";
import { startWebhookListener, type WebhookListener } from "../support/webhook-listener.ts";

let gateway: RunningGateway;
let tool: ToolClient;
let listener: WebhookListener;
let offsetMs = 0;
const clock: Clock = {
  nowMs: () => systemClock.nowMs() + offsetMs,
  monotonicMs: () => systemClock.monotonicMs(),
};

beforeAll(async () => {
  listener = startWebhookListener();
  gateway = await startTestGateway({ clock });
  tool = new ToolClient(gateway.url);
  await gateway.apply(`
tool_sign_in: { groups: [default] }
alerts: { webhooks: [{ name: ops, url: "${listener.url}", private_network: true }] }
groups: [{ name: secret, access: members, models: [fast-chat], accounts: [sim] }]
`);
  await tool.ready();
});
afterAll(async () => {
  await gateway.stop();
  await listener.stop();
});

let people = 0;
function newPerson(): Promise<SignedInClient> {
  people += 1;
  return signInAs(gateway, `victim-${people}@example.com`);
}

function approve(person: SignedInClient, userCode: string, group = "default") {
  return person.send("tools.approve", { body: { user_code: userCode, name: `tool ${userCode}`, group } });
}

const GRANT = "urn:ietf:params:oauth:grant-type:device_code";

describe("codes", () => {
  test("1. opening a link with a code of another person approves nothing", async () => {
    const { deviceCode, page } = await tool.start();
    const victim = await newPerson();
    await (await victim.fetch(new URL(page).pathname + new URL(page).search)).text();
    await victim.call("tools.find", { body: { user_code: new URL(page).searchParams.get("user_code") } });
    expect((await tool.poll(deviceCode)).error).toBe("authorization_pending");
  });

  test("2. a page of another site cannot approve with the cookie of a person", async () => {
    const { userCode } = await tool.start();
    const victim = await newPerson();
    for (const headers of [{ origin: "https://evil.example" }, { "sec-fetch-site": "cross-site" }]) {
      const body = { user_code: userCode, name: "phished", group: "default" };
      const response = await victim.send("tools.approve", { body, headers });
      expect(response.status).toBe(403);
    }
  });

  test("3. neither tokens nor service accounts approve", async () => {
    const { userCode, deviceCode } = await tool.start();
    const body = { user_code: userCode, name: "x", group: "default" };
    const admin = await createTokenClient(gateway, "admin@example.com", "admin", "admin");
    const ci = await createServiceClient(gateway, "ci", ["config.apply", "keys.write"]);
    const anonymous = openConsoleClient(gateway.url, { origin: gateway.url });
    expect((await admin.callRejected("tools.approve", { body })).status).toBe(403);
    expect((await ci.callRejected("tools.approve", { body })).status).toBe(403);
    expect((await anonymous.callRejected("tools.approve", { body })).status).toBe(401);
    expect((await tool.poll(deviceCode)).error).toBe("authorization_pending");
  });

  test("4. an approved code is approved once: a second person cannot take it over", async () => {
    const { userCode } = await tool.start();
    expect((await approve(await newPerson(), userCode)).status).toBe(200);
    expect((await approve(await newPerson(), userCode)).status).toBe(404);
  });

  test("5. the tokens of a code are issued once: a replay gets none and does not end the tool", async () => {
    const { userCode, deviceCode } = await tool.start();
    await approve(await newPerson(), userCode);
    const tokens = await tool.poll(deviceCode);
    offsetMs += 6_000;
    expect(await tool.poll(deviceCode)).toMatchObject({ status: 401, error: "invalid_grant" });
    expect((await tool.callModel(tokens.access)).status).toBe(200);
  });

  test("6. of ten polls at the same moment, one gets tokens", async () => {
    const { userCode, deviceCode } = await tool.start();
    await approve(await newPerson(), userCode);
    const replies = await Promise.all(Array.from({ length: 10 }, () => tool.poll(deviceCode)));
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1);
  });

  test("7. a person cannot choose a group without being a member", async () => {
    const { userCode, deviceCode } = await tool.start();
    expect((await approve(await newPerson(), userCode, "secret")).status).toBe(400);
    expect((await tool.poll(deviceCode)).error).toBe("authorization_pending");
  });

  test("8. a user code, a key or rubbish is no device code", async () => {
    const { userCode } = await tool.start();
    for (const code of [userCode, "gwk_x", "x".repeat(4_000), "' OR 1=1 --", "\0"])
      expect((await tool.poll(code)).status).toBe(400);
  });

  test("9. approval ends with the access of the person: a disabled one gives no tokens", async () => {
    const { userCode, deviceCode } = await tool.start();
    const victim = await newPerson();
    await approve(victim, userCode);
    await gateway.apply(`users: [{ email: ${victim.user.email}, role: user, status: disabled }]`);
    expect(await tool.poll(deviceCode)).toMatchObject({ status: 400, error: "access_denied" });
  });

  test("10. guessing user codes ends after ten attempts, also when the codes are well-formed", async () => {
    const guesser = await newPerson();
    const statuses: number[] = [];
    for (let i = 0; i < 12; i++) {
      const code = `BBBB-BBB${"BCDFGHJKLMNP"[i]}`;
      const response = await guesser.send("tools.find", { body: { user_code: code } });
      statuses.push(response.status);
    }
    // A wrong code of an earlier test may count for the address.
    expect(statuses.slice(0, 9)).toEqual(Array<number>(9).fill(404));
    expect(statuses.slice(10)).toEqual([429, 429]);
  });
});

describe("tokens", () => {
  test("11. an old refresh token, used later, ends the whole family and alerts", async () => {
    const person = await signInAs(gateway, "stolen@example.com");
    const { userCode, deviceCode } = await tool.start();
    // Codes of this address are throttled since the guesses, so the approval is stored directly.
    const { db, digest } = gateway.installation;
    const [group] = await db.sql`SELECT id FROM key_group WHERE name = 'default'`;
    await db.sql`UPDATE device_request SET state = 'approved', user_id = ${person.user.id},
      group_id = ${group?.id as string}, name = 'stolen'
      WHERE user_code_digest = ${digest(userCode.replace("-", ""))}`;
    const first = await tool.poll(deviceCode);
    const second = await tool.refresh(first.refresh);
    offsetMs += 31_000;
    expect(await tool.refresh(first.refresh)).toMatchObject({ status: 401, error: "invalid_grant" });
    expect((await tool.callModel(second.access)).status).toBe(401);
    expect(await tool.refresh(second.refresh)).toMatchObject({ status: 401 });
    const { body } = await listener.next("alert.firing");
    expect(body.alert).toMatchObject({
      rule: "refresh_token_reused",
      details: { user: "stolen@example.com" },
    });
    expect(gateway.log.join()).toContain("refresh_token_reused");
  });

  test("12. an access token is no refresh token, and the reverse", async () => {
    const tokens = await signInDirectly("mixed");
    expect(await tool.refresh(tokens.access)).toMatchObject({ status: 401, error: "invalid_grant" });
    expect((await tool.callModel(tokens.refresh)).status).toBe(401);
    expect((await tool.callModel(tokens.access)).status).toBe(200);
  });

  test("13. tokens of one family do not touch another", async () => {
    const one = await signInDirectly("family one");
    const other = await signInDirectly("family two");
    await tool.revoke(one.refresh);
    expect((await tool.callModel(one.access)).status).toBe(401);
    expect((await tool.callModel(other.access)).status).toBe(200);
    expect((await tool.refresh(other.refresh)).status).toBe(200);
  });

  test("14. a forged or changed refresh token is rejected, and costs no lock", async () => {
    const { refresh } = await signInDirectly("forged");
    const [before] = await gateway.installation.db.sql`SELECT keys FROM revision`;
    const changed = refresh.slice(0, -1) + (refresh.endsWith("a") ? "b" : "a");
    for (const token of [changed, "gwr_", `gwr_${"0".repeat(60)}`, "x".repeat(4_000)])
      expect(await tool.refresh(token)).toMatchObject({ status: 401, error: "invalid_grant" });
    const [after] = await gateway.installation.db.sql`SELECT keys FROM revision`;
    expect(after).toEqual(before);
    expect((await tool.refresh(refresh)).status).toBe(200);
  });

  test("15. refreshing in a loop is slowed down and neither ends the tool nor fills the database", async () => {
    let tokens = await signInDirectly("loop");
    const statuses: number[] = [];
    for (let i = 0; i < 10; i++) {
      const reply = await tool.refresh(tokens.refresh);
      statuses.push(reply.status);
      if (reply.status === 200) tokens = reply;
    }
    expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(4);
    expect((await tool.callModel(tokens.access)).status).toBe(200);
  });

  test("16. repeated fields, another content type and long forms are rejected", async () => {
    const post = (body: string, type = "application/x-www-form-urlencoded") =>
      fetch(`${gateway.url}/oauth/token`, { method: "POST", headers: { "content-type": type }, body });
    expect((await post(`grant_type=${GRANT}&device_code=a&device_code=b`)).status).toBe(400);
    expect((await post("{}", "application/json")).status).toBe(400);
    expect((await post("grant_type=password&username=a&password=b")).status).toBe(400);
    expect((await post(`grant_type=refresh_token&refresh_token=${"x".repeat(20_000)}`)).status).toBe(413);
  });

  /** Signs in without a code of this address. */
  async function signInDirectly(name: string) {
    const person = await newPerson();
    const { userCode, deviceCode } = await tool.start();
    const { db, digest } = gateway.installation;
    const [group] = await db.sql`SELECT id FROM key_group WHERE name = 'default'`;
    await db.sql`UPDATE device_request SET state = 'approved', user_id = ${person.user.id},
      group_id = ${group?.id as string}, name = ${name}
      WHERE user_code_digest = ${digest(userCode.replace("-", ""))}`;
    return tool.poll(deviceCode);
  }
});

test("17. pending sign-ins are bounded for each address; other paths keep working", async () => {
  const statuses: number[] = [];
  for (let i = 0; i < 30; i++) statuses.push((await tool.startRaw()).status);
  expect(statuses).toContain(429);
  const [row] = await gateway.installation.db.sql`
    SELECT COUNT(*) AS many FROM device_request WHERE state = 'pending'`;
  expect(Number(row?.many)).toBeLessThanOrEqual(20);
  expect((await tool.metadata()).status).toBe(200);
});

test("no secret of a sign-in is in the log or in the clear in the database", async () => {
  const { db } = gateway.installation;
  const tables = ["device_request", "tool_key", "refresh_token", "api_key", "former_secret", "audit"];
  const stored = await Promise.all(
    tables.map(async (table) => JSON.stringify(await db.sql.text(`SELECT * FROM ${table}`, []))),
  );
  expect([...stored, ...gateway.log].join()).not.toMatch(/gwk_\w{40}|gwr_\w{16}/);
});
