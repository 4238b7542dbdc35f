import { expect, test } from "bun:test";
import { isOwnOrigin } from "./own-origin.ts";

const PUBLIC = "https://gateway.example.com";

test.each<[string, string, Record<string, string>, string, boolean]>([
  ["the public URL", PUBLIC, { host: "10.0.0.1:8787" }, PUBLIC, true],
  ["the host of the request", "http://10.0.0.1:8787", { host: "10.0.0.1:8787" }, PUBLIC, true],
  ["another port", "http://10.0.0.1:9999", { host: "10.0.0.1:8787" }, PUBLIC, false],
  ["another host", "https://evil.example.com", { host: "gateway.example.com" }, PUBLIC, false],
  ["https without a forwarding proxy", "https://gw.internal", { host: "gw.internal" }, PUBLIC, false],
  [
    "https of a forwarding proxy",
    "https://gw.internal",
    { host: "gw.internal", "x-forwarded-proto": "https" },
    PUBLIC,
    true,
  ],
  ["an invalid origin", "null", { host: "gateway.example.com" }, PUBLIC, false],
])("%s", (_, origin, headers, publicUrl, isOwn) => {
  expect(isOwnOrigin(origin, new Headers(headers), publicUrl)).toBe(isOwn);
});
