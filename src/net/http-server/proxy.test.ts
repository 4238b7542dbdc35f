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
    expect(address("203.0.113.9:4711", "10.1.2.3")).toBe("203.0.113.9");
    expect(address("[2001:db8::7]:4711", "10.1.2.3")).toBe("2001:db8::7");
    expect(address("[2001:db8::7]", "10.1.2.3")).toBe("2001:db8::7");
  });

  test("is the peer's without a proxy", () => {
    expect(address("203.0.113.9", "198.51.100.1")).toBe("198.51.100.1");
    expect(address(null, "127.0.0.1")).toBe("127.0.0.1");
  });

  test("is unknown if a private peer forwards for another one and the public URL is not https", () => {
    expect(address("203.0.113.9", "127.0.0.1", "http://127.0.0.1:8787")).toBeNull();
  });

  test.each([
    "<script>",
    "unknown",
    "_hidden",
    "",
    "203.0.113.9,",
    "[2001:db8::7",
    "fe80::1%eth0",
    "1.2.3",
    "::1:x",
  ])("is unknown if the proxy forwards %p, never the address of the proxy", (forwarded) =>
    expect(address(forwarded, "10.1.2.3")).toBeNull(),
  );
});

test("a peer on the same machine is a proxy, and one in a private network if the public URL is https", () => {
  expect(isProxy("127.0.0.1", "http://127.0.0.1:8787")).toBe(true);
  expect(isProxy("10.1.2.3", "https://gateway.example")).toBe(true);
  expect(isProxy("10.1.2.3", "http://10.1.2.3:8787")).toBe(false);
  expect(isProxy("198.51.100.1", "https://gateway.example")).toBe(false);
});
