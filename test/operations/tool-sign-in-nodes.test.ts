/** Sign-in of tools on two nodes of one PostgreSQL database: each step may reach another node. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { ToolClient } from "../support/tool-client.ts";

setDefaultTimeout(60_000);

let postgres: Postgres;
let one: RunningGateway;
let two: RunningGateway;

beforeAll(async () => {
  postgres = await startPostgres();
  const environment = { MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") };
  one = await startTestGateway({ databaseUrl: postgres.url, environment });
  two = await startTestGateway({ databaseUrl: postgres.url, environment, file: "tool_sign_in: {}" });
  await eventually(async () => (await new ToolClient(one.url).metadata()).status === 200);
}, 300_000);

afterAll(async () => {
  await two?.stop();
  await one?.stop();
  await postgres?.stop();
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
  await eventually(async () => (await second.callModel(access)).status === 401);
  expect((await second.refresh(refresh)).status).toBe(401);
});
