/** The live dashboard ends with the right to see it, and the number of open streams is limited. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type ConsoleClient, createTokenClient, signInAs } from "../support/console-client.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.stop());

const watch = (person: ConsoleClient, signal?: AbortSignal) =>
  person.fetch("/api/admin/dashboard/live", signal === undefined ? {} : { signal });

test("the stream ends soon after its user is no longer an administrator or is signed out", async () => {
  const demoted = await signInAs(gateway, "demoted@example.com", "admin");
  const left = await signInAs(gateway, "left@example.com", "admin");
  const token = await createTokenClient(gateway, "token@example.com", "read", "admin");
  const stays = await signInAs(gateway, "stays@example.com", "admin");
  const leave = new AbortController();
  const staying = (await watch(stays, leave.signal)).body?.getReader();
  const watching = await Promise.all([demoted, left, token].map((person) => watch(person)));
  expect(watching.map(({ status }) => status)).toEqual([200, 200, 200]);
  await gateway.apply(
    "users: [{ email: demoted@example.com, role: user }, { email: token@example.com, status: disabled }]",
  );
  await left.call("session.end");
  await Promise.all(watching.map((response) => response.text()));
  // The stream of an administrator stays open.
  for (let i = 0; i < 3; i++) expect((await staying?.read())?.done).toBe(false);
  leave.abort();
});

test("the number of open streams per user is limited", async () => {
  const admin = await signInAs(gateway, "root@example.com", "admin");
  const other = await signInAs(gateway, "other-root@example.com", "admin");
  const leave = new AbortController();
  const open = await Promise.all(Array.from({ length: 10 }, () => watch(admin, leave.signal)));
  expect(open.map(({ status }) => status)).toEqual(Array(10).fill(200));
  expect((await watch(admin)).status).toBe(429);
  const others = await watch(other, leave.signal);
  expect(others.status).toBe(200);
  leave.abort();
});
