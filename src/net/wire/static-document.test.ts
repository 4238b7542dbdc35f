import { describe, expect, test } from "bun:test";
import { matchesEtag, StaticDocument } from "./static-document.ts";

const asking = (ifNoneMatch: string | null) => ({
  get: (name: string) => (name === "if-none-match" ? ifNoneMatch : null),
  has: (name: string) => name === "if-none-match" && ifNoneMatch !== null,
});

describe("a static document", () => {
  const document = new StaticDocument(Buffer.from("{}"), { "content-type": "application/json" });

  test("is sent with its ETag, and not sent again to a client that has it", () => {
    const first = document.respond(asking(null));
    expect([first.status, Buffer.from(first.bytes).toString()]).toEqual([200, "{}"]);
    expect(first.headers.get("content-type")).toBe("application/json");
    expect(first.headers.get("etag")).toBe(document.etag);
    expect(first.bytes).toBe(document.bytes);
    const again = document.respond(asking(document.etag));
    expect([again.status, again.bytes.length]).toEqual([304, 0]);
    expect(again.headers.get("etag")).toBe(document.etag);
    expect(document.respond(asking('"another"')).status).toBe(200);
  });

  test("has another ETag when its bytes differ", () => {
    const other = new StaticDocument(Buffer.from("[]"), {});
    expect(other.etag).not.toBe(document.etag);
  });
});

test("an ETag matches itself, alone or in a list, strong or weak, and a star matches any", () => {
  for (const sent of ['"a"', 'W/"a"', '"x", "a"', '"x" ,W/"a"', "*", " * "])
    expect(matchesEtag(sent, '"a"')).toBe(true);
  for (const sent of [null, "", "a", '"A"', '"ab"', 'w/"a"', '"x", *'])
    expect(matchesEtag(sent, '"a"')).toBe(false);
});
