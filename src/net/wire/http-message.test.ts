import { expect, test } from "bun:test";
import { HeaderWriter } from "./http-message.ts";

test.each([
  ["engineering", "engineering"],
  ["50 %", "50 %25"],
  ["一组", "%E4%B8%80%E7%BB%84"],
  // Their low bytes are a carriage return and a line feed.
  ["a\u010d\u010aset-cookie: b=1", "a%C4%8D%C4%8Aset-cookie: b=1"],
  ["a\r\nset-cookie: b=1", "a%0D%0Aset-cookie: b=1"],
  ["a\ud800b", "a%EF%BF%BDb"],
])("a value of a header is one line of printable ASCII: %j", (value, written) => {
  const headers = new HeaderWriter();
  headers.set("x-name", value);
  expect(headers.lines).toBe(`x-name: ${written}\r\n`);
  expect(decodeURIComponent(written)).toBe(value.toWellFormed());
});
