/**
 * A node of this version and a node of the version before all that on one PostgreSQL database: suspended keys, an
 * auditor, a service account, a tool, a leaver of the directory, and an alert that only this version knows.
 */

import { expect } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAlert } from "../../../src/store/alerts/alerts.ts";
import { openDb } from "../../../src/store/engine/db.ts";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/free-port.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../../support/gateway-process.ts";
import { CLIENT, type OpenidProvider, startOpenidProvider } from "../../support/openid-provider.ts";
import { startPostgres } from "../../support/postgres.ts";
import { ProviderBrowser } from "../../support/provider-browser.ts";
import { sendScim } from "../../support/scim-client.ts";
import { ToolClient } from "../../support/tool-client.ts";
import { extractEarlierVersion } from "./earlier-version.ts";

const PASSWORD = "correct horse battery staple";
const SHARED = `
models: [{ id: fast-chat, interfaces: [chat] }]
accounts: [{ name: sim, kind: simulator, models: { fast-chat: sim-fast } }]
groups:
  - { name: engineering, access: members, models: [fast-chat], accounts: [sim] }
  - { name: default, models: [fast-chat], accounts: [sim] }
users:
  - { email: root@example.com, role: admin, password: "${PASSWORD}" }
  - { email: olga@example.com, password: "${PASSWORD}" }
`;

interface Nodes {
  readonly earlier: GatewayProcess;
  readonly current: GatewayProcess;
  readonly provider: OpenidProvider;
}

export async function versionsAgree(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-versions-"));
  const postgres = await startPostgres();
  const stops: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true }), postgres.stop];
  try {
    const program = join(folder, "program");
    const commit = await extractEarlierVersion(program);
    const port = freePort();
    const env = {
      DATABASE_URL: postgres.url,
      MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64"),
    };
    const start = async (name: string, file: string, more: Record<string, string>, root?: string) => {
      mkdirSync(join(folder, name));
      await Bun.write(join(folder, name, "gateway.yaml"), file);
      const node = await startGatewayProcess({
        folder: join(folder, name),
        args: ["--config", "gateway.yaml"],
        env: { ...env, ...more },
        ...(root === undefined ? {} : { program: root }),
      });
      stops.push(() => node.stop());
      return node;
    };
    const earlier = await start("earlier", SHARED, {}, program);
    const publicUrl = `http://127.0.0.1:${port}`;
    const provider = await startOpenidProvider([`${publicUrl}/console/sign-in/callback`]);
    stops.push(provider.stop);
    const file = `${SHARED}  - { email: anna@example.com, role: auditor, password: "${PASSWORD}" }\n${signInFile(provider)}`;
    const current = await start("current", file, { PORT: String(port), PUBLIC_URL: publicUrl });
    const nodes = { earlier, current, provider };
    const seconds = await checkSuspendedKey(nodes);
    await checkAuditor(nodes);
    const options = { folder: join(folder, "current"), env };
    await checkServiceAccount(nodes, options);
    await checkTool(nodes);
    const leaverSeconds = await checkLeaver(nodes, await createToken("directory", options));
    await checkAlert(nodes, postgres.url);
    const faults = earlier.output().match(/.*(?:"level":"error"| ERROR ).*/g) ?? [];
    expect(faults).toEqual([]);
    return `with ${commit}: a suspended key stopped on the earlier node after ${seconds.toFixed(2)} s, a leaver of the directory after ${leaverSeconds.toFixed(2)} s; auditor, service account, tool and alert are safe on it`;
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

const signInFile = ({ issuer }: OpenidProvider) => `
service_accounts: [{ name: ci, scopes: [config.apply] }, { name: directory, scopes: [scim] }]
tool_sign_in: {}
scim: { provider: corp }
sign_in:
  providers:
    - name: corp
      issuer: ${issuer}
      client_id: ${CLIENT.id}
      client_secret: ${CLIENT.secret}
      private_network: true
      groups: { engineering: [eng-all] }
      roles: { auditor: [finance] }
`;

async function signIn(
  { current, provider }: Nodes,
  groups: readonly string[],
  name = "ada",
): Promise<ProviderBrowser> {
  provider.people.set(name, { email: `${name}@example.com`, email_verified: true, groups });
  const browser = new ProviderBrowser(current);
  const reply = await browser.finish(await provider.visit(await browser.start("corp"), name));
  expect(reply).toMatchObject({ status: 200 });
  return browser;
}

async function callModel({ url }: GatewayProcess, secret: string): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "fast-chat", messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  return response.status;
}

/** The same session on the other node: both nodes have one host. */
function moveTo(node: GatewayProcess, { cookies }: ProviderBrowser): ProviderBrowser {
  const moved = new ProviderBrowser(node);
  for (const [name, value] of cookies) moved.cookies.set(name, value);
  return moved;
}

async function checkSuspendedKey(nodes: Nodes): Promise<number> {
  const { earlier, current } = nodes;
  const browser = await signIn(nodes, ["eng-all"]);
  const { body } = await browser.post("/api/keys", { name: "tool", group: "engineering" });
  const secret = String(body.secret);
  await eventually(() => callModel(earlier, secret), { equals: 200 });
  const without = await signIn(nodes, []);
  const startedMs = performance.now();
  await eventually(() => callModel(earlier, secret), { equals: 401, withinMs: 1_000 });
  const seconds = (performance.now() - startedMs) / 1_000;
  expect(await callModel(current, secret)).toBe(401);
  const shown = async (node: GatewayProcess, status: string) => {
    const response = await moveTo(node, without).get(`/api/keys?status=${status}`);
    const { data } = (await response.json()) as { data: { status: string }[] };
    return data.map((key) => key.status);
  };
  expect(await shown(earlier, "revoked")).toEqual(["revoked"]);
  expect(await shown(current, "active")).toEqual(["suspended"]);
  await signIn(nodes, ["eng-all"]);
  await eventually(() => callModel(earlier, secret), { equals: 200, withinMs: 2_000 });
  return seconds;
}

async function checkAuditor(nodes: Nodes): Promise<void> {
  const { earlier, current } = nodes;
  const auditor = await signIn(nodes, ["finance"]);
  expect((await auditor.get("/api/admin/audit")).status).toBe(200);
  const before = moveTo(earlier, auditor);
  expect(await (await before.get("/api/session")).json()).toMatchObject({ user: { role: "user" } });
  expect((await before.get("/api/admin/audit")).status).toBe(403);
  expect((await before.get("/api/admin/users")).status).toBe(403);
  const local = new ProviderBrowser(earlier);
  const credentials = { email: "anna@example.com", password: PASSWORD };
  expect(await local.post("/api/session", credentials)).toMatchObject({
    status: 200,
    body: { user: { role: "user" } },
  });
  expect((await moveTo(current, local).get("/api/admin/audit")).status).toBe(200);
}

interface CommandPlace {
  readonly folder: string;
  readonly env: Record<string, string>;
}

async function createToken(account: string, place: CommandPlace): Promise<string> {
  const made = await runCommand(["service-accounts", "token", account, "--print-secret"], place);
  const token = /gws_\w+/.exec(made.output)?.[0];
  if (token === undefined) throw new Error(made.output);
  return token;
}

async function checkServiceAccount({ earlier, current }: Nodes, place: CommandPlace): Promise<void> {
  const token = await createToken("ci", place);
  const plan = ({ url }: GatewayProcess) =>
    fetch(`${url}/api/admin/config/plan`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ text: "models: []" }),
    });
  expect((await plan(current)).status).toBe(200);
  expect((await plan(earlier)).status).toBe(401);
}

/** The token of a tool is a secret of an ordinary key: the earlier node accepts it, its successor, and its end. */
async function checkTool({ earlier, current }: Nodes): Promise<void> {
  const olga = new ProviderBrowser(current);
  await olga.post("/api/session", { email: "olga@example.com", password: PASSWORD });
  const tool = new ToolClient(current.url);
  const { userCode, deviceCode } = await tool.start();
  const approval = { user_code: userCode, name: "laptop", group: "default" };
  expect(await olga.post("/api/tools/approve", approval)).toMatchObject({ status: 200 });
  const first = await tool.poll(deviceCode);
  const second = await tool.refresh(first.refresh);
  for (const { access } of [first, second])
    await eventually(() => callModel(earlier, access), { equals: 200, withinMs: 2_000 });
  const response = await moveTo(earlier, olga).get("/api/keys");
  expect(await response.json()).toMatchObject({ data: [{ name: "laptop", status: "active" }] });
  expect((await tool.revoke(second.refresh)).status).toBe(200);
  for (const { access } of [first, second])
    await eventually(() => callModel(earlier, access), { equals: 401, withinMs: 2_000 });
}

/** Returns after how many seconds a person whom the directory deactivates has no access to the earlier node. */
async function checkLeaver(nodes: Nodes, token: string): Promise<number> {
  const { earlier, current } = nodes;
  const send = sendScim(current.url, token);
  const person = { userName: "lea@example.com", externalId: "lea" };
  const { body: pushed } = await send("POST", "/Users", person);
  const browser = await signIn(nodes, [], "lea");
  const { body } = await browser.post("/api/keys", { name: "leaver", group: "default" });
  const secret = String(body.secret);
  await eventually(() => callModel(earlier, secret), { equals: 200 });
  const session = moveTo(earlier, browser);
  expect((await session.get("/api/keys")).status).toBe(200);
  const startedMs = performance.now();
  const leaving = { Operations: [{ op: "replace", path: "active", value: false }] };
  expect((await send("PATCH", `/Users/${pushed.id}`, leaving)).status).toBe(200);
  expect((await session.get("/api/keys")).status).toBe(401);
  await eventually(() => callModel(earlier, secret), { equals: 401, withinMs: 2_000 });
  const seconds = (performance.now() - startedMs) / 1_000;
  expect((await sendScim(earlier.url, token)("GET", "/Users")).status).toBeGreaterThanOrEqual(400);
  return seconds;
}

/** The earlier node lists an alert whose rule it does not know, and leaves it open. */
async function checkAlert({ earlier }: Nodes, databaseUrl: string): Promise<void> {
  const root = new ProviderBrowser(earlier);
  await root.post("/api/session", { email: "root@example.com", password: PASSWORD });
  const db = await openDb(databaseUrl);
  try {
    const alert = {
      id: "alert_test",
      rule: "directory_shrinks",
      subject: "elsewhere",
      node: "",
      message: "Many people lost their access.",
      details: {},
      startedAtMs: Date.now(),
      endedAtMs: null,
    } as const;
    expect(await openAlert(db, alert, [])).toBe(true);
    const response = await root.get("/api/admin/alerts");
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining(alert.message)]);
  } finally {
    await db.close();
  }
}
