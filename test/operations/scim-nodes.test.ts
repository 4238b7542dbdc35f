/** A leaver on three nodes with one PostgreSQL database, while all of them serve requests. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { openScimClient, type ScimClient, sendScim } from "../support/scim-client.ts";
import { openSocketClient } from "../support/turn-client.ts";

setDefaultTimeout(120_000);

const LEAVERS = 20;
const CLIENTS = 6;
const PAUSE_MS = 20;
const WITHIN_MS = 1_000;

let postgres: Postgres;
let nodes: RunningGateway[];
let scim: ScimClient;

beforeAll(async () => {
  postgres = await startPostgres();
  const environment = { MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") };
  const node = { databaseUrl: postgres.url, environment };
  const first = await startTestGateway(node);
  await first.apply(`
sign_in: { providers: [{ name: corp, issuer: "https://login.example.com", client_id: gateway }] }
scim: { provider: corp }
`);
  const others = [
    await startTestGateway({ ...node, file: "models: []" }),
    await startTestGateway({ ...node, file: "models: []" }),
  ];
  nodes = [first, ...others];
  scim = await openScimClient(first);
}, 300_000);

afterAll(async () => {
  for (const node of nodes ?? []) await node.stop();
  await postgres?.stop();
});

async function callModel(node: RunningGateway, secret?: string): Promise<number> {
  const body = { model: "fast-chat", messages: [{ role: "user", content: "Hello" }] };
  const headers = secret === undefined ? {} : { authorization: `Bearer ${secret}` };
  const response = await node.call("/v1/chat/completions", body, { headers });
  await response.text();
  return response.status;
}

/** Requests on every node until it is stopped. Returns their number. */
function startLoad(): () => Promise<number> {
  let isOver = false;
  let sent = 0;
  const clients = Array.from({ length: CLIENTS }, async (_, i) => {
    const node = nodes[i % nodes.length];
    while (!isOver && node !== undefined) {
      await callModel(node);
      sent++;
      await Bun.sleep(PAUSE_MS);
    }
  });
  return async () => {
    isOver = true;
    await Promise.all(clients);
    return sent;
  };
}

async function pushPerson(name: string): Promise<{ id: string; secret: string; cookie: string }> {
  const email = `${name}@example.com`;
  const { body } = await scim.send("POST", "/Users", { userName: email, externalId: name });
  const [first] = nodes;
  if (first === undefined) throw new Error("There is no node.");
  const session = await signInAs(first, email);
  const { secret } = await session.call("keys.create", { body: { name: "tool", group: "default" } });
  return { id: body.id, secret, cookie: session.cookie };
}

test("loses keys, sessions and open WebSockets on all nodes within a second, under load", async () => {
  const stopLoad = startLoad();
  const durations: number[] = [];
  for (let i = 0; i < LEAVERS; i++) {
    const { id, secret, cookie } = await pushPerson(`leaver-${i}`);
    for (const node of nodes) await eventually(() => callModel(node, secret), { equals: 200 });
    const sockets = await Promise.all(nodes.map(({ url }) => openSocketClient(url, { key: secret })));
    const node = nodes[i % nodes.length];
    if (node === undefined) throw new Error("There is no node.");
    const startedMs = performance.now();
    const sentTo = sendScim(node.url, scim.secret);
    const operations = [{ op: "replace", path: "active", value: "False" }];
    const { status } = await sentTo("PATCH", `/Users/${id}`, { Operations: operations });
    expect(status).toBe(200);
    const ended = nodes.map(({ url }) => fetch(`${url}/api/keys`, { headers: { cookie } }));
    for (const response of await Promise.all(ended)) expect(response.status).toBe(401);
    await Promise.all([
      // 429 after many leavers: this address has sent too many invalid keys.
      ...nodes.map((one) => eventually(async () => [401, 429].includes(await callModel(one, secret)))),
      ...sockets.map(({ closed }) => closed),
    ]);
    durations.push(performance.now() - startedMs);
    for (const { closed } of sockets) expect((await closed).code).toBe(1008);
  }
  const sent = await stopLoad();
  const sorted = durations.toSorted((a, b) => a - b);
  console.log(`${sent} requests meanwhile; ${sorted.map(Math.round).join(" ")} ms`);
  // Nodes, database and clients share this machine, whose other work may delay single ones.
  expect(sorted[LEAVERS / 2]).toBeLessThan(WITHIN_MS);
});
