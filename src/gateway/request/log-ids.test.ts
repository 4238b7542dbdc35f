import { expect, test } from "bun:test";
import { HeadText } from "../../net/wire/http-fields.ts";
import { clientRequestId } from "./log-ids.ts";

const read = (value: string) => {
  const name = "x-client-request-id";
  return clientRequestId(new HeadText(`${name}: ${value}\r\n`, [name.length], 0));
};

test("a client request id is used unchanged", () => {
  expect(read("0199aaaa-bbbb thread/7")).toBe("0199aaaa-bbbb thread/7");
});

test("a client request id is truncated and reduced to visible ASCII", () => {
  expect(read("x".repeat(500))).toBe("x".repeat(128));
  expect(read("a\u0007\tb\u00a0\u0085\u00e9c")).toBe("abc");
});

test("a missing or empty client request id is null", () => {
  expect(clientRequestId(new Headers())).toBeNull();
  expect(read("")).toBeNull();
  expect(read("\u00e9\u0001")).toBeNull();
});
