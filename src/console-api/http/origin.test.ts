import { describe, expect, test } from "bun:test";
import { ApiError } from "../../errors.ts";
import { refuseForeign, refuseInsecure, resolveClientAddress } from "./origin.ts";

const code = (work: () => void): string | null => {
  try {
    work();
    return null;
  } catch (thrown) {
    if (thrown instanceof ApiError) return thrown.code;
    throw thrown;
  }
};

describe("a change", () => {
  const PUBLIC = "https://gateway.example";
  const foreign = (headers: Record<string, string>, hasCookie = true, publicUrl = PUBLIC) =>
    code(() => refuseForeign(new Headers({ host: "gateway.example", ...headers }), publicUrl, hasCookie));

  test("is ours from the public address, however the proxy forwards it", () => {
    expect(foreign({ origin: PUBLIC })).toBeNull();
    expect(foreign({ origin: PUBLIC, host: "10.0.0.5:8787" })).toBeNull();
    expect(
      foreign({ origin: "https://other.name", host: "other.name", "x-forwarded-proto": "https" }),
    ).toBeNull();
  });

  test("is not ours from another scheme, port or name", () => {
    for (const origin of [
      "http://gateway.example:81",
      "https://gateway.example.evil",
      "https://evil.example",
    ]) {
      expect(foreign({ origin })).toBe("foreign_origin");
    }
  });

  test("a forwarded scheme is believed only of a gateway that has a proxy", () => {
    const headers = {
      origin: "https://127.0.0.1:8787",
      host: "127.0.0.1:8787",
      "x-forwarded-proto": "https",
    };
    expect(foreign(headers)).toBeNull();
    expect(foreign(headers, true, "http://127.0.0.1:8787")).toBe("foreign_origin");
  });

  test("without a cookie may come from a program, which names no origin", () => {
    expect(foreign({}, false)).toBeNull();
    expect(foreign({}, true)).toBe("foreign_origin");
    expect(foreign({ origin: "https://evil.example" }, false)).toBe("foreign_origin");
  });
});

describe("signing in", () => {
  const insecure = (headers: Record<string, string>, publicUrl = "http://127.0.0.1:8787") =>
    code(() => refuseInsecure(new Headers(headers), publicUrl));

  test.each([
    "https://gateway.example",
    "http://localhost:8787",
    "http://gateway.localhost",
    "http://127.0.0.1:8787",
    "http://127.1.2.3",
    "http://[::1]:8787",
  ])("is done from %s", (origin) => {
    expect(insecure({ origin, host: "x" })).toBeNull();
  });

  test.each(["http://192.168.1.5:8787", "http://gateway.example", "http://127.0.0.1.evil.example"])(
    "is refused from %s, where the browser would drop the cookie",
    (origin) => {
      expect(insecure({ origin, host: "x" })).toBe("forbidden");
    },
  );

  test("of a program is judged by the host that it asks", () => {
    expect(insecure({ host: "127.0.0.1:8787" })).toBeNull();
    expect(insecure({ host: "192.168.1.5:8787" })).toBe("forbidden");
    const forwarded = { host: "gateway.example", "x-forwarded-proto": "https" };
    expect(insecure(forwarded, "https://gateway.example")).toBeNull();
    expect(insecure(forwarded)).toBe("forbidden");
  });
});

describe("the address of whoever asks", () => {
  const address = (forwarded: string | null, peer: string, publicUrl = "https://gateway.example") =>
    resolveClientAddress(
      new Headers(forwarded === null ? {} : { "x-forwarded-for": forwarded }),
      peer,
      publicUrl,
    );

  test("is the last one that our own proxy names", () => {
    expect(address("203.0.113.9", "127.0.0.1")).toBe("203.0.113.9");
    expect(address("1.1.1.1, 203.0.113.9", "10.1.2.3")).toBe("203.0.113.9");
    expect(address("2001:db8::7", "::ffff:127.0.0.1")).toBe("2001:db8::7");
  });

  test("is the peer's where there is no proxy of ours, or it names none", () => {
    expect(address("203.0.113.9", "198.51.100.1")).toBe("198.51.100.1");
    expect(address("203.0.113.9", "127.0.0.1", "http://127.0.0.1:8787")).toBe("127.0.0.1");
    expect(address(null, "127.0.0.1")).toBe("127.0.0.1");
    expect(address("<script>", "127.0.0.1")).toBe("127.0.0.1");
  });
});
