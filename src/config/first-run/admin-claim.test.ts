/** The link of the first administrator: when it is created, and how long it is valid. */

import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { type FreshInstallation, freshInstallation } from "../installation/installation.test-support.ts";
import type { Installation } from "../installation/installation.ts";
import { applyChanges, planChanges } from "../plan/apply.ts";
import { checkClaim, isUnclaimed, offerAdminClaim, readToken } from "./admin-claim.ts";

const URL = "http://127.0.0.1:8787";
const NAMED = "{ email: ops@example.com, role: admin";

let gateway: Installation;
let remove: FreshInstallation["remove"];

beforeEach(async () => {
  ({ gateway, remove } = await freshInstallation());
});

afterEach(() => remove());

async function apply(text: string): Promise<void> {
  const result = await planChanges(gateway, { text, fileName: "f", environment: {} }, { prune: false });
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  await applyChanges(gateway, result.plan, { actor: { kind: "cli", id: null, name: "ops" }, address: null });
}

async function offered(): Promise<string> {
  const link = await offerAdminClaim(gateway, URL);
  return link?.split("#")[1] ?? "";
}

const check = (token: string) => checkClaim(gateway.db, token, gateway.clock.nowMs());

test("each start creates a new link, and the previous one becomes invalid", async () => {
  const first = await offered();
  expect(await check(first)).toBeNull();
  const second = await offered();
  expect(second).not.toBe(first);
  expect(await check(first)).toBe("wrong");
  expect(await check(second)).toBeNull();
  expect(readToken(gateway.settings.adminTokenFile)).toBe(second);
});

test("the link is offered for a configured administrator without a password", async () => {
  await apply(`users: [${NAMED} }]`);
  const token = await offered();
  expect(await check(token)).toBeNull();
  expect(await isUnclaimed(gateway.db)).toBe(true);
});

test("a link is invalid once an administrator has a password, and the next start deletes it", async () => {
  const token = await offered();
  await apply(`users: [${NAMED}, password: a long enough password }]`);
  expect(await check(token)).toBe("claimed");
  expect(await isUnclaimed(gateway.db)).toBe(false);
  expect(await offerAdminClaim(gateway, URL)).toBeNull();
  expect(existsSync(gateway.settings.adminTokenFile)).toBe(false);
});

test("a disabled administrator does not prevent the offer of a link", async () => {
  await apply(`users: [${NAMED}, password: a long enough password, status: disabled }]`);
  expect(await check(await offered())).toBeNull();
});
