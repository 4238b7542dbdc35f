/** Two nodes on one PostgreSQL database: a browser may return from its provider to any of them, and bounds are shared. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createServiceClient, openConsoleClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { CLIENT, type OpenidProvider, startOpenidProvider } from "../support/openid-provider.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { ProviderBrowser } from "../support/provider-browser.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

setDefaultTimeout(60_000);

let postgres: Postgres;
let one: RunningGateway;
let two: RunningGateway;
let provider: OpenidProvider;

beforeAll(async () => {
  postgres = await startPostgres();
  const ports = [freePort(), freePort()] as const;
  // Both nodes have one address, as behind a load balancer.
  const publicUrl = `http://127.0.0.1:${ports[0]}`;
  const environment = {
    MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64"),
    PUBLIC_URL: publicUrl,
  };
  const node = { databaseUrl: postgres.url, environment };
  one = await startTestGateway({ ...node, port: ports[0] });
  two = await startTestGateway({ ...node, port: ports[1], file: "models: []" });
  provider = await startOpenidProvider([`${publicUrl}/console/sign-in/callback`]);
  await one.apply(`
groups:
  - { name: engineering, access: members, models: [fast-chat], accounts: [sim] }
sign_in:
  providers:
    - name: corp
      issuer: ${provider.issuer}
      client_id: ${CLIENT.id}
      client_secret: ${CLIENT.secret}
      private_network: true
      require_group: [llm-users]
      groups: { engineering: [eng-all] }
`);
}, 300_000);

afterAll(async () => {
  await two?.stop();
  await one?.stop();
  await provider?.stop();
  await postgres?.stop();
});

function setGroups(groups: readonly string[]): void {
  provider.people.set("ada", { email: "ada@example.com", email_verified: true, groups });
}

/** A browser that the load balancer sends to another node when it returns. */
async function returnTo(node: RunningGateway, start: RunningGateway): Promise<ProviderBrowser> {
  const started = new ProviderBrowser(start, one.url);
  const callback = await provider.visit(await started.start("corp"), "ada");
  const returned = new ProviderBrowser(node, one.url);
  for (const [name, value] of started.cookies) returned.cookies.set(name, value);
  expect(await returned.finish(callback)).toMatchObject({ status: 200 });
  // The cookie of the first browser is still there, as on a stolen computer.
  expect(await started.finish(callback)).toMatchObject({ status: 400, code: "sign_in_expired" });
  return returned;
}

async function callModel(gateway: RunningGateway, secret: string): Promise<number> {
  const body = { model: "fast-chat", messages: [{ role: "user", content: "Hello" }] };
  const headers = { authorization: `Bearer ${secret}` };
  const response = await gateway.call("/v1/chat/completions", body, { headers });
  await response.text();
  return response.status;
}

test("a sign-in ends on another node, once, and a lost group stops keys on both within a second", async () => {
  setGroups(["llm-users", "eng-all"]);
  const browser = await returnTo(two, one);
  const { body } = await browser.post("/api/keys", { name: "tool", group: "engineering" });
  const secret = String(body.secret);
  await eventually(() => callModel(one, secret), { equals: 200 });
  setGroups(["llm-users"]);
  await returnTo(one, two);
  expect(await callModel(one, secret)).toBe(401);
  await eventually(() => callModel(two, secret), { equals: 401, withinMs: 1_000 });
  setGroups(["llm-users", "eng-all"]);
  await returnTo(two, one);
  expect(await callModel(two, secret)).toBe(200);
  await eventually(() => callModel(one, secret), { equals: 200, withinMs: 1_000 });
});

test("a lost required group ends sessions on the other node at once", async () => {
  setGroups(["llm-users"]);
  const browser = await returnTo(two, one);
  expect((await browser.get("/api/keys")).status).toBe(200);
  setGroups([]);
  const rejected = new ProviderBrowser(one);
  const callback = await provider.visit(await rejected.start("corp"), "ada");
  expect(await rejected.finish(callback)).toMatchObject({ status: 403, code: "not_assigned" });
  expect((await browser.get("/api/keys")).status).toBe(401);
});

test("an account is linked on another node, once", async () => {
  const password = "correct horse battery staple";
  await one.apply(`users: [{ email: bob@example.com, password: "${password}" }]`);
  provider.people.set("bob", { email: "bob@example.com", email_verified: true, groups: ["llm-users"] });
  const begun = new ProviderBrowser(one, one.url);
  const callback = await provider.visit(await begun.start("corp"), "bob");
  expect(await begun.finish(callback)).toMatchObject({ status: 409, code: "account_exists" });
  const moved = new ProviderBrowser(two, one.url);
  for (const [name, value] of begun.cookies) moved.cookies.set(name, value);
  expect(await moved.post("/api/sign-in/link", { password })).toMatchObject({ status: 200 });
  expect(await begun.post("/api/sign-in/link", { password })).toMatchObject({
    status: 400,
    code: "sign_in_expired",
  });
});

test("a service account cannot exceed its bound of a day by requests to both nodes at once", async () => {
  const { user } = await signInAs(one, "payer@example.com");
  const { secret, send } = await createServiceClient(one, "billing", ["wallet.top_up"]);
  const other = openConsoleClient(two.url, { authorization: `Bearer ${secret}` });
  const replies = await Promise.all(
    Array.from({ length: 30 }, async (_, i) => {
      const response = await (i % 2 === 0 ? send : other.send)("admin.money.top_up", {
        params: { id: user.id },
        headers: { "idempotency-key": `invoice-${i}` },
        body: { amount: "100.00", provider: "stripe", reason: "Invoice" },
      });
      await response.text();
      return response.status;
    }),
  );
  // The bound is $1000.
  expect(replies.toSorted()).toEqual([...Array(10).fill(200), ...Array(20).fill(403)]);
});
