import { describe, expect, test } from "bun:test";
import { ApiError } from "../../errors.ts";
import { rejectForeignOrigin, rejectInsecure } from "./origin.ts";

const code = (work: () => void): string | null => {
  try {
    work();
    return null;
  } catch (thrown) {
    if (thrown instanceof ApiError) return thrown.code;
    throw thrown;
  }
};

describe("a state-changing request", () => {
  const PUBLIC = "https://gateway.example";
  const foreign = (headers: Record<string, string>, hasCookie = true, publicUrl = PUBLIC) =>
    code(() =>
      rejectForeignOrigin(new Headers({ host: "gateway.example", ...headers }), publicUrl, hasCookie),
    );

  test("is accepted from the public origin, however the proxy forwards it", () => {
    expect(foreign({ origin: PUBLIC })).toBeNull();
    expect(foreign({ origin: PUBLIC, host: "10.0.0.5:8787" })).toBeNull();
    expect(
      foreign({ origin: "https://other.name", host: "other.name", "x-forwarded-proto": "https" }),
    ).toBeNull();
  });

  test("is rejected from another scheme, port or host name", () => {
    for (const origin of [
      "http://gateway.example:81",
      "https://gateway.example.evil",
      "https://evil.example",
    ]) {
      expect(foreign({ origin })).toBe("foreign_origin");
    }
  });

  test("trusts a forwarded scheme only if the gateway is behind a proxy", () => {
    const headers = {
      origin: "https://127.0.0.1:8787",
      host: "127.0.0.1:8787",
      "x-forwarded-proto": "https",
    };
    expect(foreign(headers)).toBeNull();
    expect(foreign(headers, true, "http://127.0.0.1:8787")).toBe("foreign_origin");
  });

  test("without a cookie may have no Origin header", () => {
    expect(foreign({}, false)).toBeNull();
    expect(foreign({}, true)).toBe("foreign_origin");
    expect(foreign({ origin: "https://evil.example" }, false)).toBe("foreign_origin");
  });
});

describe("signing in", () => {
  const insecure = (headers: Record<string, string>, publicUrl = "http://127.0.0.1:8787") =>
    code(() => rejectInsecure(new Headers(headers), publicUrl));

  test.each([
    "https://gateway.example",
    "http://localhost:8787",
    "http://gateway.localhost",
    "http://127.0.0.1:8787",
    "http://127.1.2.3",
    "http://[::1]:8787",
  ])("is allowed from %s", (origin) => {
    expect(insecure({ origin, host: "x" })).toBeNull();
  });

  test.each(["http://192.168.1.5:8787", "http://gateway.example", "http://127.0.0.1.evil.example"])(
    "is rejected from %s, where the browser would drop the cookie",
    (origin) => {
      expect(insecure({ origin, host: "x" })).toBe("forbidden");
    },
  );

  test("without an Origin header is checked by the Host header", () => {
    expect(insecure({ host: "127.0.0.1:8787" })).toBeNull();
    expect(insecure({ host: "192.168.1.5:8787" })).toBe("forbidden");
    const forwarded = { host: "gateway.example", "x-forwarded-proto": "https" };
    expect(insecure(forwarded, "https://gateway.example")).toBeNull();
    expect(insecure(forwarded)).toBe("forbidden");
  });
});
