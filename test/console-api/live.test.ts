/** The live dashboard does not outlive the right to it, and nobody watches it from everywhere. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { type Asking, signInAs, tokenOf } from "../support/signed-in.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.stop());

const watch = (person: Asking, signal?: AbortSignal) =>
  person.fetch("/api/admin/dashboard/live", signal === undefined ? {} : { signal });

test("it ends soon after its watcher is no longer an administrator, or no longer signed in", async () => {
  const demoted = await signInAs(gateway, "demoted@example.com", "admin");
  const left = await signInAs(gateway, "left@example.com", "admin");
  const token = await tokenOf(gateway, "token@example.com", "read", "admin");
  const stays = await signInAs(gateway, "stays@example.com", "admin");
  const leave = new AbortController();
  const staying = (await watch(stays, leave.signal)).body?.getReader();
  const watching = await Promise.all([demoted, left, token].map((person) => watch(person)));
  await gateway.apply(
    "users: [{ email: demoted@example.com, role: user }, { email: token@example.com, status: disabled }]",
  );
  await left.ask("session.end");
  await Promise.all(watching.map((response) => response.text()));
  // One who may is not sent away with them.
  for (let i = 0; i < 3; i++) expect((await staying?.read())?.done).toBe(false);
  leave.abort();
});

test("so many may be open at once, and no more", async () => {
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
