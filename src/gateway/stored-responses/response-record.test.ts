import { expect, test } from "bun:test";
import type { OutputItem } from "../../protocols/hub/hub-response.ts";
import { deriveContentKeyring } from "../../secrets/keyring.ts";
import { openRecord, type ResponseRecord, sealRecord } from "./response-record.ts";
import { joinRecords } from "./stored-responses.ts";
import { buildTurn, readTurns, turnResponse, writeTurnHead } from "./stored-turn.ts";

const keyring = deriveContentKeyring(new Uint8Array(32).fill(3));

const OUTPUT: OutputItem = {
  kind: "message",
  role: "assistant",
  parts: [{ kind: "text", text: "Grüße\n", cacheHint: null }],
};

const turn = (input: unknown, output: readonly OutputItem[] = [OUTPUT]) =>
  buildTurn(writeTurnHead('{"id":"resp_1","output":[]}', output), Buffer.from(JSON.stringify(input)));

const record = (change: Partial<ResponseRecord> = {}): ResponseRecord => ({
  responseId: "resp_1",
  previousId: null,
  keyId: "key_1",
  owner: "usr_1",
  atMs: 5,
  tokens: 12,
  memoryBytes: 400,
  turn: turn("Hallo\nWelt"),
  ...change,
});

test("a record is the same after sealing, and its text is not readable at rest", async () => {
  const row = await sealRecord(keyring, record());
  expect(row.sealed).not.toContain("Hallo");
  expect(Buffer.from(row.sealed.split(":")[2] ?? "", "base64url").toString("latin1")).not.toContain("Hallo");
  expect(await openRecord(keyring, row)).toEqual({ ...record(), owner: "key_1" });
});

test("a record of another key or another response cannot be opened", async () => {
  const row = await sealRecord(keyring, record());
  expect(await openRecord(keyring, { ...row, keyId: "key_2" })).toBeNull();
  expect(await openRecord(keyring, { ...row, id: "resp_2" })).toBeNull();
  const otherKeyring = deriveContentKeyring(new Uint8Array(32).fill(4));
  expect(await openRecord(otherKeyring, row)).toBeNull();
});

test("a turn has the response object as the client received it", () => {
  const { bytes, start, end } = turnResponse(turn("Hello"));
  expect(Buffer.from(bytes.subarray(start, end)).toString()).toBe('{"id":"resp_1","output":[]}');
});

test("a chain of records is one conversation: system messages, then the items in order", () => {
  const first = record({
    turn: turn([
      { role: "developer", content: "Be brief." },
      { role: "user", content: "One" },
    ]),
  });
  const second = record({ responseId: "resp_2", previousId: "resp_1", turn: turn("Two", []), tokens: 30 });
  const conversation = joinRecords([first, second]);
  expect(conversation?.record).toBe(second);
  const { instructions, items } = readTurns(conversation?.turns ?? []);
  expect(instructions).toMatchObject([{ text: "Be brief." }]);
  expect(items).toMatchObject([
    { role: "user", parts: [{ text: "One" }] },
    { role: "assistant", parts: [{ text: "Grüße\n" }] },
    { role: "user", parts: [{ text: "Two" }] },
  ]);
});
