/** Sign-in of tools on two nodes of one PostgreSQL database: each step may reach another node. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { applyChanges, planChanges } from "../../src/config/plan/apply.ts";
import { signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { ToolClient } from "../support/tool-client.ts";

setDefaultTimeout(60_000);

let postgres: PostgresServer;
let one: RunningGateway;
let two: RunningGateway;

beforeAll(async () => {
  postgres = await PostgresServer.create();
  await postgres.run("CREATE DATABASE gateway");
  const databaseUrl = postgres.url("gateway");
  const environment = { MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") };
  one = await startTestGateway({ databaseUrl, environment });
  two = await startTestGateway({ databaseUrl, environment, file: "tool_sign_in: {}" });
  await new ToolClient(one.url).ready();
}, 300_000);

afterAll(async () => {
  await two?.stop();
  await one?.stop();
  await postgres?.remove();
});

test("every node knows a new token before the tool has it, and each token is issued once", async () => {
  const first = new ToolClient(one.url);
  const second = new ToolClient(two.url);
  const ada = await signInAs(two, "ada@example.com");
  const { userCode, deviceCode } = await first.start();
  await ada.call("tools.approve", { body: { user_code: userCode, name: "laptop", group: "default" } });
  const replies = await Promise.all([first.poll(deviceCode), second.poll(deviceCode)]);
  const issued = replies.filter(({ status }) => status === 200);
  expect(issued).toHaveLength(1);
  let tokens = issued[0];
  for (const node of [second, first, second]) {
    if (tokens === undefined) throw new Error("no tokens");
    tokens = await node.refresh(tokens.refresh);
    const calls = await Promise.all([first, second].map((other) => other.callModel(tokens?.access ?? "")));
    expect(calls.map(({ status }) => status)).toEqual([200, 200]);
  }
  const { access = "", refresh = "" } = tokens ?? {};
  await first.revoke(refresh);
  await eventually(async () => (await second.callModel(access)).status, { equals: 401 });
  expect((await second.refresh(refresh)).status).toBe(401);
});

test("without the database, every node serves the settings of tools, and tools keep their tokens", async () => {
  const source = {
    text: "tool_sign_in: { claude_code: { managed_settings: { default: ./claude.json } } }",
    fileName: "gateway.yaml",
    environment: {},
    readFile: () => JSON.stringify({ env: { TEAM: "ml" } }),
  };
  const planned = await planChanges(one.installation, source, { prune: false });
  if (!planned.ok) throw new Error(JSON.stringify(planned.problems));
  await applyChanges(one.installation, planned.plan);
  const tools = [one, two].map(({ url }) => new ToolClient(url));
  const [first] = tools;
  if (first === undefined) throw new Error("There is no node.");
  const tokens = await first.signIn(await signInAs(one, "ben@example.com"), "laptop");
  const read = async (headers = {}) =>
    Promise.all(tools.map((tool) => tool.get("/managed/settings", tokens.access, headers)));
  const isServed = (response: Response) => response.status === 200;
  await eventually(async () => (await read()).every(isServed));
  await postgres.stop("immediate");
  try {
    const responses = await read();
    expect(responses.map(({ status }) => status)).toEqual([200, 200]);
    const [etag, other] = responses.map(({ headers }) => headers.get("etag"));
    expect(other).toBe(etag ?? "");
    expect((await read({ "if-none-match": etag ?? "" })).map(({ status }) => status)).toEqual([304, 304]);
    // Claude Code continues with the token that it has.
    expect(await first.refresh(tokens.refresh)).toMatchObject({
      status: 503,
      error: "temporarily_unavailable",
    });
  } finally {
    await postgres.start();
  }
  await eventually(async () => (await first.refresh(tokens.refresh)).status, { equals: 200 });
});
