import { expect, test } from "bun:test";
import { findBaseUrl } from "./base-url.ts";

const LOCAL = "http://localhost:8080";

test.each<[string, string | null, string]>([
  ["https://gateway.example.com", "evil.example", "https://gateway.example.com"],
  ["https://example.com/gateway/", "10.0.0.7:8080", "https://example.com/gateway"],
  [LOCAL, "gateway.lan:8080", "http://gateway.lan:8080"],
  [LOCAL, "10.0.0.7:8080", "http://10.0.0.7:8080"],
  [LOCAL, "[fd00::7]:8080", "http://[fd00::7]:8080"],
  [LOCAL, "GATEWAY.lan", "http://gateway.lan"],
  ["http://127.0.0.1:8080", "localhost:8080", "http://localhost:8080"],
  [LOCAL, null, LOCAL],
  [LOCAL, "", LOCAL],
  [LOCAL, "a b", LOCAL],
  [LOCAL, "host/path", LOCAL],
  [LOCAL, "user@host", LOCAL],
  [LOCAL, "<script>", LOCAL],
  [LOCAL, "host:123456", LOCAL],
  [LOCAL, `${"a".repeat(300)}.example`, LOCAL],
])("the base URL for %s with Host %p is %s", (publicUrl, host, expected) => {
  const headers = new Headers();
  if (host !== null) headers.set("host", host);
  expect(findBaseUrl(headers, publicUrl)).toBe(expected);
});
