import { expect, test } from "bun:test";
import { selectUpgradeHeaders } from "./upgrade-headers.ts";

const kept = (headers: Record<string, string>) =>
  Object.fromEntries(selectUpgradeHeaders(new Headers(headers)));

test("upgrade headers are kept only if a turn needs them, and the key never is", () => {
  expect(
    kept({
      authorization: "Bearer secret",
      "x-api-key": "secret",
      originator: "codex_exec",
      "user-agent": "codex_exec/1",
      "session-id": "s",
      "thread-id": "t",
      "x-client-request-id": "t",
      "x-codex-beta-features": "f",
      "x-codex-turn-metadata": "large",
      cookie: "secret",
    }),
  ).toEqual({
    originator: "codex_exec",
    "user-agent": "codex_exec/1",
    "session-id": "s",
    "thread-id": "t",
    "x-client-request-id": "t",
    "x-codex-beta-features": "f",
  });
});

test("connections without such headers share one empty list", () => {
  expect(selectUpgradeHeaders(new Headers({ "user-agent": "other/1" }))).toBe(
    selectUpgradeHeaders(new Headers()),
  );
});

test("the beta flag for WebSockets is removed; others are kept", () => {
  expect(kept({ "openai-beta": "responses_websockets=2026-02-06" })).toEqual({});
  expect(kept({ "openai-beta": "a=1, responses_websockets=2026-02-06,b=2" })).toEqual({
    "openai-beta": "a=1,b=2",
  });
});
