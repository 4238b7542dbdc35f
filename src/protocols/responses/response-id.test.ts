import { expect, test } from "bun:test";
import { findResponseId } from "./response-id.ts";

function idIn(text: string): string | null {
  const bytes = Buffer.from(`{"response":{"id":"before"}}${text}{"response":{"id":"behind"}}`);
  const start = bytes.indexOf("}}") + 2;
  return findResponseId(bytes, start, start + Buffer.byteLength(text));
}

test("the response id is found at its position only", () => {
  const near =
    '{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"m","output":[]}}';
  expect(idIn(near)).toBe("resp_1");
  expect(idIn('{"type":"response.completed","response":{"output":[{"id":"msg_1"}],"id":"resp_1"}}')).toBe(
    "resp_1",
  );
  expect(idIn('{"type":"response.completed","item":{"response":{"id":"no"}}}')).toBeNull();
  expect(idIn('{"type":"response.completed","id":"no","response":{"output":[{"id":"msg_1"}]}}')).toBeNull();
  expect(idIn('{"response":{"output":[]},"id":"no"}')).toBeNull();
  expect(idIn('{"type":"response.completed","response":null}')).toBeNull();
  expect(idIn('{"response":{"id":7}}')).toBeNull();
  expect(idIn('{"response":{}}')).toBeNull();
  expect(idIn("[]")).toBeNull();
  expect(idIn("")).toBeNull();
});

test("the response id is found with any escapes and whitespace", () => {
  expect(idIn(' { "n" : [ 1 , {} ] , "response" : { "object" : "response" , "id" : "resp_1" } } ')).toBe(
    "resp_1",
  );
  expect(idIn('{"\\u0072esponse":{"\\u0069d":"resp_1"}}')).toBe("resp_1");
  expect(idIn('{"response":{"id":"resp_\\u0031"}}')).toBe("resp_1");
});

test("an event truncated before the id has none", () => {
  const event = '{"type":"response.created","sequence_number":0,"response":{"id":"resp_1"';
  for (let end = 0; end < event.length; end++) expect(idIn(event.slice(0, end))).toBeNull();
});
