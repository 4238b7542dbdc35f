import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { joinParts } from "../../net/wire/parts.ts";
import { deriveContentKeyring } from "../../secrets/keyring.ts";
import { putLongStrings } from "./long-strings.ts";
import { openRecord, type ResponseRecord, sealRecord } from "./response-record.ts";
import { joinRecords } from "./stored-responses.ts";

const keyring = deriveContentKeyring(new Uint8Array(32).fill(3));

const record = (change: Partial<ResponseRecord> = {}): ResponseRecord => ({
  responseId: "resp_1",
  previousId: null,
  keyId: "key_1",
  owner: "usr_1",
  atMs: 5,
  tokens: 12,
  memoryBytes: 400,
  response: '{"id":"resp_1","output":[]}',
  output: [
    { kind: "message", role: "assistant", parts: [{ kind: "text", text: "Grüße\n", cacheHint: null }] },
  ],
  input: "Hallo\nWelt",
  longStrings: new Map(),
  ...change,
});

test("a record is the same after sealing, and its text is not readable at rest", async () => {
  const row = await sealRecord(keyring, record());
  expect(row.sealed).not.toContain("Hallo");
  expect(Buffer.from(row.sealed.split(":")[2] ?? "", "base64url").toString("latin1")).not.toContain("Hallo");
  expect(await openRecord(keyring, row, randomBytes)).toEqual({ ...record(), owner: "key_1" });
});

test("a record of another key or another response cannot be opened", async () => {
  const row = await sealRecord(keyring, record());
  expect(await openRecord(keyring, { ...row, keyId: "key_2" }, randomBytes)).toBeNull();
  expect(await openRecord(keyring, { ...row, id: "resp_2" }, randomBytes)).toBeNull();
  const otherKeyring = deriveContentKeyring(new Uint8Array(32).fill(4));
  expect(await openRecord(otherKeyring, row, randomBytes)).toBeNull();
});

test("a long string is stored in full, and taken out again when the record is read", async () => {
  const token = `gwlong_${"a".repeat(32)}_0_`;
  const image = "iVBORw0KGgo".repeat(60_000);
  const content = [{ type: "input_image", image_url: `data:image/png;base64,${token}` }];
  const stored = record({
    input: [{ role: "user", content }],
    longStrings: new Map([[token, Buffer.from(image)]]),
  });
  const opened = await openRecord(keyring, await sealRecord(keyring, stored), randomBytes);
  if (opened === null) throw new Error("the record cannot be opened");
  expect(opened.longStrings.size).toBe(1);
  expect(JSON.stringify(opened.input)).not.toContain(image);
  const written = joinParts(putLongStrings(JSON.stringify(opened.input), opened.longStrings));
  expect(Buffer.from(written).toString()).toContain(`data:image/png;base64,${image}`);
});

test("a chain of records is one conversation: system messages, then the items in order", () => {
  const first = record({
    input: [
      { role: "developer", content: "Be brief." },
      { role: "user", content: "One" },
    ],
  });
  const second = record({ responseId: "resp_2", previousId: "resp_1", input: "Two", output: [], tokens: 30 });
  const conversation = joinRecords([first, second]);
  expect(conversation?.record).toBe(second);
  expect(conversation?.instructions).toMatchObject([{ text: "Be brief." }]);
  expect(conversation?.items).toMatchObject([
    { role: "user", parts: [{ text: "One" }] },
    { role: "assistant", parts: [{ text: "Grüße\n" }] },
    { role: "user", parts: [{ text: "Two" }] },
  ]);
});
