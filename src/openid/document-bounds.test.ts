import { expect, test } from "bun:test";
import { measureSlowdown } from "../../test/support/machine-speed.ts";
import { findDocumentFault } from "./document-bounds.ts";

const MiB = 1024 * 1024;
const encode = (text: string) => Buffer.from(text).toString("base64url");
const find = (text: string, contentType = "application/json") =>
  findDocumentFault({ body: Buffer.from(text), contentType }, 100);

test("documents and tokens of ordinary size have no fault", () => {
  expect(find(JSON.stringify({ keys: [{ kty: "RSA", kid: "one" }] }))).toBeNull();
  expect(
    find(JSON.stringify({ id_token: `${encode("{}")}.${encode('{"sub":"ada"}')}.signature` })),
  ).toBeNull();
  expect(find(`${encode("{}")}.${encode("{}")}.signature`, "application/jwt")).toBeNull();
  expect(find("<html>", "text/html")).toBeNull();
  expect(find("", "application/json")).toBeNull();
});

test("too many values are a fault, in a document and in a part of a token", () => {
  const many = JSON.stringify(Array(200).fill(1));
  expect(find(many)).toContain("100 JSON values");
  expect(find(JSON.stringify({ id_token: `${encode(many)}.e30.x` }))).toContain("part of the token");
  expect(find(`e30.${encode(many)}.x`, "application/jwt; charset=utf-8")).toContain("part of the token");
  expect(find(JSON.stringify({ id_token: "e30.".repeat(50) }))).toBe("the token has too many parts");
});

test("the longest documents of a provider are checked at little cost", () => {
  const allowedMs = 20 * measureSlowdown();
  for (const text of [
    "[".repeat(MiB),
    `{"id_token":"${".".repeat(MiB)}"}`,
    `{"id_token":"e30.${encode("[".repeat((MiB * 3) / 4))}.x"}`,
    `{"a":"${"b".repeat(MiB)}"}`,
  ]) {
    const before = process.threadCpuUsage();
    expect(find(text) === null).toBe(text.startsWith('{"a"'));
    const { user, system } = process.threadCpuUsage(before);
    expect((user + system) / 1_000).toBeLessThan(allowedMs);
  }
});
