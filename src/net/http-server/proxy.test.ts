import { describe, expect, test } from "bun:test";
import { isProxy, resolveClientAddress } from "./proxy.ts";

describe("the client address", () => {
  const address = (forwarded: string | null, peer: string, publicUrl = "https://gateway.example") =>
    resolveClientAddress(
      new Headers(forwarded === null ? {} : { "x-forwarded-for": forwarded }),
      peer,
      publicUrl,
    );

  test("is the last one that the gateway's proxy names", () => {
    expect(address("203.0.113.9", "127.0.0.1")).toBe("203.0.113.9");
    expect(address("1.1.1.1, 203.0.113.9", "10.1.2.3")).toBe("203.0.113.9");
    expect(address("2001:db8::7", "::ffff:127.0.0.1")).toBe("2001:db8::7");
  });

  test("is the peer's without a proxy, or if the proxy names none", () => {
    expect(address("203.0.113.9", "198.51.100.1")).toBe("198.51.100.1");
    expect(address("203.0.113.9", "127.0.0.1", "http://127.0.0.1:8787")).toBe("127.0.0.1");
    expect(address(null, "127.0.0.1")).toBe("127.0.0.1");
    expect(address("<script>", "127.0.0.1")).toBe("127.0.0.1");
  });
});

test("a peer on the same machine is a proxy, and one in a private network if the public URL is https", () => {
  expect(isProxy("127.0.0.1", "http://127.0.0.1:8787")).toBe(true);
  expect(isProxy("10.1.2.3", "https://gateway.example")).toBe(true);
  expect(isProxy("10.1.2.3", "http://10.1.2.3:8787")).toBe(false);
  expect(isProxy("198.51.100.1", "https://gateway.example")).toBe(false);
});
