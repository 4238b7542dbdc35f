/** Temporary secrets of two nodes on one PostgreSQL database: the page may send its requests to any of them. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

setDefaultTimeout(60_000);

const ADA = "ada@example.com";

let postgres: Postgres;
let one: RunningGateway;
let two: RunningGateway;

beforeAll(async () => {
  postgres = await startPostgres();
  const environment = { MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") };
  one = await startTestGateway({ databaseUrl: postgres.url, environment });
  two = await startTestGateway({ databaseUrl: postgres.url, environment, file: "models: []" });
}, 300_000);

afterAll(async () => {
  await two?.stop();
  await one?.stop();
  await postgres?.stop();
});

/** The simulator of the first node serves both: the accounts are in the database. */
async function chat(gateway: RunningGateway, secret: string): Promise<number> {
  const body = { model: "fast-chat", messages: [{ role: "user", content: "Hello" }] };
  const headers = { authorization: `Bearer ${secret}` };
  const response = await gateway.call("/v1/chat/completions", body, { headers });
  await response.text();
  return response.status;
}

test("a secret works on every node as soon as it is returned, and on none after its session has ended", async () => {
  const owner = await signInAs(one, ADA);
  const { key } = await owner.call("keys.create", { body: { name: "playground", group: "default" } });
  // Several, because the other node may happen to read the keys at the right moment.
  for (let round = 0; round < 5; round++) {
    const { secret } = await owner.call("keys.temporary_secret", { params: { id: key.id }, body: {} });
    expect([await chat(two, secret), await chat(one, secret)]).toEqual([200, 200]);
  }
  const session = await signInAs(two, ADA);
  const { secret } = await session.call("keys.temporary_secret", { params: { id: key.id }, body: {} });
  expect([await chat(one, secret), await chat(two, secret)]).toEqual([200, 200]);
  await session.call("session.end");
  expect(await chat(two, secret)).toBe(401);
  await eventually(() => chat(one, secret), { equals: 401 });
});
