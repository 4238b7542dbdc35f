/**
 * The content of a capture at rest: compressed, then encrypted with a separate data key. Only the data key is sealed
 * with the master key, so that a rotation of the master key does not rewrite the captures.
 */

import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import type { Keyring } from "../secrets/keyring.ts";
import { captureKeyBinding, SealError, seal, unseal } from "../secrets/seal.ts";
import type { SealedCapture } from "../store/captures/captures.ts";
import { type CaptureDocument, captureDocument } from "./document.ts";

const ALGORITHM = "aes-256-gcm";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export function createDataKey(): Uint8Array {
  return randomBytes(KEY_BYTES);
}

export function sealDataKey(keyring: Keyring, requestId: string, dataKey: Uint8Array): string {
  return seal(keyring, captureKeyBinding(requestId), Buffer.from(dataKey).toString("base64"));
}

/** The request id is authenticated, so that a content cannot be moved to another row. */
export function encryptDocument(document: CaptureDocument, requestId: string, dataKey: Uint8Array): string {
  const packed = Bun.zstdCompressSync(Buffer.from(JSON.stringify(document)));
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, dataKey, nonce);
  cipher.setAAD(Buffer.from(requestId));
  const sealed = Buffer.concat([nonce, cipher.update(packed), cipher.final(), cipher.getAuthTag()]);
  return sealed.toString("base64");
}

export async function openCapture(
  keyring: Keyring,
  { requestId, sealedKey, content }: Pick<SealedCapture, "requestId" | "sealedKey" | "content">,
): Promise<CaptureDocument> {
  const dataKey = Buffer.from(unseal(keyring, captureKeyBinding(requestId), sealedKey), "base64");
  const packed = decrypt(Buffer.from(content, "base64"), requestId, dataKey);
  const json = await Bun.zstdDecompress(packed);
  return captureDocument.parse(JSON.parse(json.toString()));
}

function decrypt(sealed: Buffer, requestId: string, dataKey: Uint8Array): Buffer {
  const tagAt = sealed.length - TAG_BYTES;
  try {
    const decipher = createDecipheriv(ALGORITHM, dataKey, sealed.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(Buffer.from(requestId));
    decipher.setAuthTag(sealed.subarray(tagAt));
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, tagAt)), decipher.final()]);
  } catch {
    throw new SealError("corrupt", `The capture of the request ${requestId} cannot be decrypted.`);
  }
}
