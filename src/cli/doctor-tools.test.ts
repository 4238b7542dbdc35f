/** `doctor`: what it finds about the sign-in of tools. */

import { afterEach, beforeEach, expect, test } from "bun:test";
import { type Db, openDb } from "../store/engine/db.ts";
import { migrate } from "../store/engine/migrate.ts";
import { writeToolSignIn } from "../store/settings/sections.ts";
import { checkToolSignIn } from "./doctor-tools.ts";

let db: Db;

beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
});
afterEach(() => db.close());

function configure(enabled: boolean): Promise<void> {
  const lives = { accessTokenMs: 3_600_000, idleEndMs: 86_400_000 };
  return writeToolSignIn(db, { enabled, ...lives, groups: [], managedSettings: {} });
}

test("nothing is checked while tools cannot sign in", async () => {
  expect(await checkToolSignIn(db, { publicUrl: "http://llm.example.com" })).toEqual([]);
  await configure(false);
  expect(await checkToolSignIn(db, { publicUrl: "http://llm.example.com" })).toEqual([]);
});

// Addresses instead of names: the test needs no name server.
test.each([
  ["http://localhost:8787", "good", "tools on this machine"],
  ["http://[::1]:8787", "good", "tools on this machine"],
  ["https://10.0.0.1", "good", "Claude Code accepts it for /login"],
  ["https://[fd00::1]", "good", "Claude Code accepts it for /login"],
  ["https://93.184.215.14", "doubtful", "Claude Code rejects public addresses for /login"],
  ["https://[2606:2800:21f::1]", "doubtful", "Claude Code rejects public addresses for /login"],
  ["http://10.0.0.1", "broken", "no tool can sign in"],
])("%s is %s: %s", async (publicUrl, state, message) => {
  await configure(true);
  const found = await checkToolSignIn(db, { publicUrl });
  expect(found).toMatchObject([{ state, message: expect.stringContaining(message) }]);
  expect(found[0]?.todo === null).toBe(state === "good");
});
