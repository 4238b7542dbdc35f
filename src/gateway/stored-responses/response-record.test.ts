import { afterAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../base/clock.ts";
import { limits } from "../../config/limits/product-limits.ts";
import type { OutputItem } from "../../protocols/hub/hub-response.ts";
import { deriveContentKeyring, type Keyring } from "../../secrets/keyring.ts";
import type { NewStoredResponse } from "../../store/responses/stored-responses.ts";
import { RecordSealer } from "./record-sealer.ts";
import type { ResponseRecord } from "./response-record.ts";
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

/** The second one does all of its work in threads. */
const SEALERS = [Number.POSITIVE_INFINITY, -1].map(
  (inlineBytesMax) =>
    [inlineBytesMax < 0 ? "in a thread" : "here", openSealer(keyring, inlineBytesMax)] as const,
);
afterAll(() => {
  for (const [, sealer] of SEALERS) sealer.close();
});

function openSealer(sealingKeyring: Keyring, inlineBytesMax: number): RecordSealer {
  const threadLimits = { ...limits.recordThreads, inlineBytesMax };
  const { monotonicMs } = systemClock;
  return new RecordSealer({ keyring: sealingKeyring, limits: threadLimits, monotonicMs });
}

async function sealRecord(sealer: RecordSealer): Promise<NewStoredResponse> {
  const row = await sealer.seal(record(), 10_000);
  if (row === null) throw new Error("too long");
  return row;
}

describe.each(SEALERS)("content that is sealed %s", (_, sealer) => {
  test("is the same when it is opened, and not readable at rest", async () => {
    const row = await sealRecord(sealer);
    expect(row.sealed).not.toContain("Hallo");
    expect(Buffer.from(row.sealed.split(":")[2] ?? "", "base64url").toString("latin1")).not.toContain(
      "Hallo",
    );
    for (const [, opener] of SEALERS)
      expect(await opener.open([row], "usr_1")).toEqual([{ ...record(), owner: "key_1" }]);
  });

  test("cannot be opened as that of another key or another response", async () => {
    const row = await sealRecord(sealer);
    expect(await sealer.open([row, { ...row, keyId: "key_2" }], "usr_1")).toBeNull();
    expect(await sealer.open([{ ...row, id: "resp_2" }], "usr_1")).toBeNull();
    const otherKeyring = deriveContentKeyring(new Uint8Array(32).fill(4));
    expect(await openSealer(otherKeyring, 10_000).open([row], "usr_1")).toBeNull();
  });

  test("is as long as it was computed before", async () => {
    const { sealed } = await sealRecord(sealer);
    expect(await sealer.seal(record(), sealed.length)).not.toBeNull();
    expect(await sealer.seal(record(), sealed.length - 1)).toBeNull();
  });
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
