import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { forwardedRequestHeaders, forwardedResponseHeaders, upstreamRequestId } from "./headers.ts";

function up(headers: Record<string, string>): Record<string, string> {
  return linesIn(forwardedRequestHeaders(new Headers(headers)));
}

function down(headers: Record<string, string>, model = "fast", id: string | null = null) {
  return linesIn(forwardedResponseHeaders(new Headers(headers), model, id));
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
  test("include those that change its behavior", () => {
    const headers = { "openai-beta": "responses=v1", "x-codex-beta-features": "a,b" };
    expect(up(headers)).toEqual(headers);
  });

  test("exclude the caller's identity and any destination", () => {
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

  test("exclude an empty, too long or non-ASCII value", () => {
    expect(up({ "openai-beta": "" })).toEqual({});
    expect(up({ "openai-beta": "x".repeat(1_025) })).toEqual({});
    expect(up({ "openai-beta": "caf\u00e9" })).toEqual({});
  });

  test("include only the listed names", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z][a-z-]{0,20}$/), (name) => {
        fc.pre(!["openai-beta", "x-codex-beta-features"].includes(name));
        expect(up({ [name]: "v" })).toEqual({});
      }),
    );
  });
});

describe("headers to the client", () => {
  test("include the processing time if it is a number", () => {
    expect(down({ "openai-processing-ms": "123" })).toEqual({ "openai-processing-ms": "123" });
    expect(down({ "openai-processing-ms": "org-x" })).toEqual({});
  });

  test("include x-reasoning-included as a constant value", () => {
    expect(down({ "x-reasoning-included": "CANARY-SECRET-7f3a" })).toEqual({
      "x-reasoning-included": "true",
    });
  });

  test("include the model with its public name, if that is a valid header value", () => {
    expect(down({ "openai-model": "gpt-6-eu-0419" })).toEqual({ "openai-model": "fast" });
    expect(down({ "openai-model": "gpt-6-eu-0419" }, "быстро")).toEqual({});
    expect(down({})).toEqual({});
  });

  test("include the upstream's request id under another name", () => {
    expect(down({}, "fast", "req_1")).toEqual({ "x-upstream-request-id": "req_1" });
  });

  test("exclude everything about the account", () => {
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

  test("is recorded in the forms that providers use", () => {
    expect(upstreamRequestId(new Headers({ "x-request-id": HEX }))).toBe(HEX);
    expect(upstreamRequestId(new Headers({ "apim-request-id": UUID }))).toBe(UUID);
  });

  test("is not recorded in any other form", () => {
    for (const id of ["", "sk-abc", `${UUID} org-x`, "req_CANARY", "x".repeat(500)]) {
      expect(upstreamRequestId(new Headers({ "x-request-id": id }))).toBeNull();
    }
    expect(upstreamRequestId(new Headers())).toBeNull();
  });
});
