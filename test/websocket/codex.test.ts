/** Behaviour for Codex only, in addition to the protocol. */

import { afterEach, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import {
  type PooledGateway,
  type PoolSetup,
  PUBLIC_MODEL,
  startPooledGateway,
} from "../support/pooled-gateway.ts";
import { openSocketClient, type SocketClient } from "../support/turn-client.ts";

const CODEX = { originator: "codex_exec", "user-agent": "codex_exec/0.166.0 (Debian 12.0.0; x86_64)" };
const WINDOWS = {
  limits: {
    windows: [
      { per: "5h", requests: 4 },
      { per: "7d", requests: 10, tokens: 1_000_000 },
    ],
  },
};
const TURN = { model: PUBLIC_MODEL, input: "Hi", store: false };

let gateway: PooledGateway | null = null;
const clients: SocketClient[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await gateway?.stop();
});

async function start(setup: Partial<PoolSetup> = {}): Promise<PooledGateway> {
  gateway = await startPooledGateway({ accounts: [{}], ...setup });
  return gateway;
}

async function open({ url }: PooledGateway, headers: Record<string, string> = {}): Promise<SocketClient> {
  const client = await openSocketClient(url, { headers });
  clients.push(client);
  return client;
}

const ofType = (client: SocketClient, type: string) => client.events.filter((event) => event.type === type);

test("Codex receives the used percentage of its key's windows before the response begins", async () => {
  const client = await open(await start({ group: WINDOWS }), CODEX);
  await client.turn(TURN);
  await client.turn(TURN);
  const [first, second] = ofType(client, "codex.rate_limits");
  expect(first).toMatchObject({
    rate_limits: {
      primary: { used_percent: 25, window_minutes: 300, reset_at: expect.any(Number) },
      secondary: { used_percent: 10, window_minutes: 7 * 24 * 60 },
    },
  });
  expect(second).toMatchObject({ rate_limits: { primary: { used_percent: 50 } } });
  expect(client.events[0]?.type).toBe("codex.rate_limits");
});

test("Codex receives no rate limits if the key has no windows", async () => {
  const client = await open(await start(), CODEX);
  await client.turn(TURN);
  expect(ofType(client, "codex.rate_limits")).toEqual([]);
});

test("other clients receive no Codex events", async () => {
  const client = await open(await start({ group: WINDOWS }), { "session-id": "session" });
  await client.turn(TURN);
  expect(client.events.every(({ type }) => /^response\.(?!metadata)/.test(type))).toBe(true);
});

test("the turn-state token keeps a Codex turn on its account and is not sent upstream", async () => {
  const running = await start({ accounts: [{}, {}, {}, {}] });
  const first = await open(running, { ...CODEX, "session-id": "0199aa-session" });
  await first.turn(TURN);
  const [given] = ofType(first, "response.metadata");
  expect(given).toEqual({ type: "response.metadata", headers: { "x-codex-turn-state": expect.any(String) } });
  const token = Object.values(given?.headers ?? {})[0];
  const home = running.upstreams.findIndex(({ ledger }) => ledger.totals().requests === 1);
  const second = await open(running, CODEX);
  for (let i = 0; i < 8; i++) {
    await second.turn({ ...TURN, client_metadata: { turn_id: "t", "x-codex-turn-state": token } });
  }
  const ledger = running.upstreams[home]?.ledger;
  expect(ledger?.totals().requests).toBe(9);
  const body = Buffer.from(ledger?.findBody(ledger.last()?.id ?? "") ?? []).toString();
  expect(JSON.parse(body).client_metadata).toEqual({ turn_id: "t" });
  // The client has the token already.
  expect(ofType(second, "response.metadata")).toEqual([]);
});

test("an unknown turn-state token is forwarded unchanged", async () => {
  const running = await start();
  const client = await open(running, CODEX);
  const metadata = { "x-codex-turn-state": "not-ours" };
  await client.turn({ ...TURN, client_metadata: metadata });
  const ledger = running.upstreams[0]?.ledger;
  const body = Buffer.from(ledger?.findBody(ledger.last()?.id ?? "") ?? []).toString();
  expect(JSON.parse(body).client_metadata).toEqual(metadata);
});

test("a header that Codex sends in a frame is sent upstream as a header", async () => {
  const running = await start();
  const client = await open(running, { ...CODEX, "openai-beta": "responses_websockets=2026-02-06,other=1" });
  await client.turn({
    ...TURN,
    client_metadata: { ws_request_header_x_openai_internal_codex_responses_lite: "true" },
  });
  const headers = running.upstreams[0]?.ledger.last()?.headers;
  expect(headers).toMatchObject({
    "x-openai-internal-codex-responses-lite": "true",
    "openai-beta": "other=1",
  });
});

test("a silence is filled with response.in_progress for Codex, and only with pings for others", async () => {
  const limits = { keepAliveMs: 20, silentReasoningMs: 40, keepAliveTickMs: 10 };
  const models = { [PUBLIC_MODEL]: "fault/stall@chunk6" };
  const running = await start({ accounts: [{ models }], limits });
  const other = await open(running);
  const codex = await open(running, CODEX);
  for (const client of [other, codex]) client.create(TURN);
  await eventually(() => ofType(codex, "response.in_progress").length > 2);
  expect(ofType(other, "response.in_progress")).toHaveLength(1);
});
