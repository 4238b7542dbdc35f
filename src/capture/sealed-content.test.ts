import { expect, test } from "bun:test";
import { openTemporaryKeyring } from "../secrets/keyring.ts";
import { findCapture, insertCapture, type SealedCapture } from "../store/captures/captures.ts";
import { openDb } from "../store/engine/db.ts";
import { migrate } from "../store/engine/migrate.ts";
import { rewrapSecrets } from "../store/settings/rotate.ts";
import type { CaptureDocument } from "./document.ts";
import { createDataKey, encryptDocument, openCapture, sealDataKey } from "./sealed-content.ts";

const DOCUMENT: CaptureDocument = {
  request: { method: "POST", path: "/v1/responses", transport: "http", headers: [["a", "b"]], body: null },
  attempts: [],
  response: {
    status: 200,
    stream: false,
    body: { text: "hello", bytes: 5, omitted_bytes: 0 },
    is_complete: true,
  },
};

const old = openTemporaryKeyring();
const fresh = openTemporaryKeyring();
const both = { activeKid: fresh.activeKid, get: (kid: string) => fresh.get(kid) ?? old.get(kid) };

function sealCapture(requestId: string): SealedCapture {
  const dataKey = createDataKey();
  const content = encryptDocument(DOCUMENT, requestId, dataKey);
  return {
    requestId,
    atMs: 1,
    keyId: "k1",
    userId: null,
    groupId: "g1",
    endpoint: "responses",
    model: "fast",
    status: 200,
    outcome: "completed",
    storedBytes: content.length,
    sealedKey: sealDataKey(old, requestId, dataKey),
    content,
  };
}

test("a sealed capture opens with the master key, and with no other", async () => {
  const capture = sealCapture("req_1");
  expect(await openCapture(old, capture)).toEqual(DOCUMENT);
  await expect(openCapture(fresh, capture)).rejects.toMatchObject({ reason: "unknown_key" });
});

test("neither the key nor the content can be moved to another capture", async () => {
  const [one, two] = [sealCapture("req_1"), sealCapture("req_2")];
  await expect(openCapture(old, { ...two, sealedKey: one.sealedKey })).rejects.toMatchObject({
    reason: "corrupt",
  });
  await expect(openCapture(old, { ...two, content: one.content })).rejects.toMatchObject({
    reason: "corrupt",
  });
});

test("a changed content is detected", async () => {
  const capture = sealCapture("req_1");
  const bytes = Buffer.from(capture.content, "base64");
  bytes[20] = (bytes[20] ?? 0) ^ 1;
  await expect(openCapture(old, { ...capture, content: bytes.toString("base64") })).rejects.toMatchObject({
    reason: "corrupt",
  });
});

test("after a rotation the old master key is not needed, and the content is as it was", async () => {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  const capture = sealCapture("req_1");
  await insertCapture(db, capture, { order: null, isWantedAnyway: true, budgetBytes: 1e9 });
  expect(await rewrapSecrets(db, both)).toBe(1);
  const rotated = await findCapture(db, "req_1");
  expect(rotated?.content).toBe(capture.content);
  expect(await openCapture(fresh, rotated ?? capture)).toEqual(DOCUMENT);
  await db.close();
});
