import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { headersDown, headersUp, upstreamRequestId } from "./headers.ts";

function up(headers: Record<string, string>): Record<string, string> {
  return linesIn(headersUp(new Headers(headers)));
}

function down(headers: Record<string, string>, model = "fast", id: string | null = null) {
  return linesIn(headersDown(new Headers(headers), model, id));
}

function linesIn(lines: string): Record<string, string> {
  return Object.fromEntries(
    lines
      .split("\r\n")
      .slice(0, -1)
      .map((line) => line.split(": ", 2)),
  );
}

describe("headers to the upstream", () => {
  test("those that change what it does go on", () => {
    const headers = { "openai-beta": "responses=v1", "x-codex-beta-features": "a,b" };
    expect(up(headers)).toEqual(headers);
  });

  test("nothing that says who the caller is goes on, nor anything that names a destination", () => {
    const headers = {
      authorization: "Bearer gwk_x",
      "x-api-key": "gwk_x",
      cookie: "a=b",
      host: "evil.example",
      "openai-organization": "org-x",
      "openai-project": "proj_x",
      "x-forwarded-for": "203.0.113.7",
      "x-forwarded-host": "evil.example",
      forwarded: "for=203.0.113.7",
      "user-agent": "codex/1",
      "session-id": "s",
      "content-length": "3",
      "transfer-encoding": "chunked",
    };
    expect(up(headers)).toEqual({});
  });

  test("a value that is empty, too long or not plain text stays here", () => {
    expect(up({ "openai-beta": "" })).toEqual({});
    expect(up({ "openai-beta": "x".repeat(1_025) })).toEqual({});
    expect(up({ "openai-beta": "caf\u00e9" })).toEqual({});
  });

  test("no header but the named ones ever goes on", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z][a-z-]{0,20}$/), (name) => {
        fc.pre(!["openai-beta", "x-codex-beta-features"].includes(name));
        expect(up({ [name]: "v" })).toEqual({});
      }),
    );
  });
});

describe("headers to the client", () => {
  test("the processing time goes on if it is a number", () => {
    expect(down({ "openai-processing-ms": "123" })).toEqual({ "openai-processing-ms": "123" });
    expect(down({ "openai-processing-ms": "org-x" })).toEqual({});
  });

  test("that reasoning is included goes on as a fact, not as a text", () => {
    expect(down({ "x-reasoning-included": "CANARY-SECRET-7f3a" })).toEqual({
      "x-reasoning-included": "true",
    });
  });

  test("a model header goes on with the public name, if a header can hold that", () => {
    expect(down({ "openai-model": "gpt-6-eu-0419" })).toEqual({ "openai-model": "fast" });
    expect(down({ "openai-model": "gpt-6-eu-0419" }, "быстро")).toEqual({});
    expect(down({})).toEqual({});
  });

  test("what the upstream calls the request goes on under another name", () => {
    expect(down({}, "fast", "req_1")).toEqual({ "x-upstream-request-id": "req_1" });
  });

  test("whatever tells of the account stays here", () => {
    const headers = {
      "openai-organization": "org-x",
      "openai-project": "proj_x",
      "x-request-id": "req_1",
      "x-ratelimit-remaining-requests": "7",
      "x-codex-primary-used-percent": "80",
      "x-codex-turn-state": "of that account",
      "x-models-etag": "e",
      "set-cookie": "a=b",
      server: "cloudflare",
      "cf-ray": "x",
      "x-ms-region": "West Europe",
      location: "https://internal.example",
      "retry-after": "3",
    };
    expect(down(headers)).toEqual({});
  });
});

describe("the upstream's request id", () => {
  const UUID = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000";
  const HEX = `req_${"0a".repeat(16)}`;

  test("is kept in the forms that providers use", () => {
    expect(upstreamRequestId(new Headers({ "x-request-id": HEX }))).toBe(HEX);
    expect(upstreamRequestId(new Headers({ "apim-request-id": UUID }))).toBe(UUID);
  });

  test("is not kept in any other form", () => {
    for (const id of ["", "sk-abc", `${UUID} org-x`, "req_CANARY", "x".repeat(500)]) {
      expect(upstreamRequestId(new Headers({ "x-request-id": id }))).toBeNull();
    }
    expect(upstreamRequestId(new Headers())).toBeNull();
  });
});
