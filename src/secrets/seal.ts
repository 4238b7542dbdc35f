/** Secrets at rest: AES-256-GCM, bound to row and column, so that no value can be moved. */

import { createCipheriv, createDecipheriv, randomBytes as cryptoRandomBytes, hkdfSync } from "node:crypto";
import type { Keyring, RandomBytes } from "./keyring.ts";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const SEALED_FORMAT = /^v1:([A-Za-z0-9-]{1,32}):([A-Za-z0-9_-]+)$/;

export type SealErrorReason = "unknown_key" | "corrupt" | "malformed";

export class SealError extends Error {
  override readonly name = "SealError";
  readonly reason: SealErrorReason;
  constructor(reason: SealErrorReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

export function accountCredentialBinding(accountId: string): string {
  return `account|${accountId}|credential`;
}

export function totpBinding(userId: string): string {
  return `app_user|${userId}|totp`;
}

export function captureKeyBinding(requestId: string): string {
  return `capture|${requestId}|key`;
}

export const SMTP_PASSWORD_BINDING = "setting|smtp|password";

/** The lists of webhooks: those of alerts, and those of the usage export. */
export type WebhookList = "alerts" | "usage_export";

export function webhookSecretBinding(list: WebhookList, name: string): string {
  return `setting|${list}|${name}|secret`;
}

export function providerSecretBinding(name: string): string {
  return `setting|sign_in|${name}|client_secret`;
}

/** The cookie of a sign-in that is in progress. */
export const SIGN_IN_COOKIE_BINDING = "cookie|sign_in";

/** The cookie of a person of a provider whose address belongs to an account that is not linked yet. */
export const PENDING_LINK_COOKIE_BINDING = "cookie|pending_link";

/** The cookie of a session whose owner has just signed in again at the provider. */
export const CONFIRMATION_COOKIE_BINDING = "cookie|confirmation";

export function storedResponseBinding(keyId: string, responseId: string): string {
  return `stored_response|${keyId}|${responseId}`;
}

export function seal(
  keyring: Keyring,
  binding: string,
  plaintext: string | Uint8Array,
  randomBytes: RandomBytes = cryptoRandomBytes,
): string {
  const kid = keyring.activeKid;
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", deriveRowKey(getMasterKey(keyring, kid), binding), nonce);
  cipher.setAAD(Buffer.from(binding));
  const sealed = Buffer.concat([
    nonce,
    typeof plaintext === "string" ? cipher.update(plaintext, "utf8") : cipher.update(plaintext),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
  return `v1:${kid}:${sealed.toString("base64url")}`;
}

/** The length of the sealed form of this many bytes. */
export function computeSealedLength({ activeKid }: Keyring, plainBytes: number): number {
  return `v1:${activeKid}:`.length + Math.ceil(((NONCE_BYTES + plainBytes + TAG_BYTES) * 4) / 3);
}

export function unseal(keyring: Keyring, binding: string, sealed: string): string {
  return unsealBytes(keyring, binding, sealed).toString("utf8");
}

export function unsealBytes(keyring: Keyring, binding: string, sealed: string): Buffer {
  const { kid, bytes } = parseSealed(sealed);
  const tagAt = bytes.length - TAG_BYTES;
  const decipher = createDecipheriv(
    "aes-256-gcm",
    deriveRowKey(getMasterKey(keyring, kid), binding),
    bytes.subarray(0, NONCE_BYTES),
    { authTagLength: TAG_BYTES },
  );
  decipher.setAAD(Buffer.from(binding));
  decipher.setAuthTag(bytes.subarray(tagAt));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, tagAt)), decipher.final()]);
  } catch {
    throw new SealError(
      "corrupt",
      `The encrypted value of ${binding} cannot be decrypted: it was changed, moved from another row, or encrypted by another key with the same id.`,
    );
  }
}

/** The id of the master key that a sealed value needs. */
export function readKeyId(sealed: string): string {
  return parseSealed(sealed).kid;
}

function parseSealed(sealed: string): { kid: string; bytes: Buffer } {
  const match = SEALED_FORMAT.exec(sealed);
  const kid = match?.[1];
  const bytes = Buffer.from(match?.[2] ?? "", "base64url");
  if (kid === undefined || bytes.length < NONCE_BYTES + TAG_BYTES) {
    throw new SealError("malformed", "An encrypted value must have the form v1:<key id>:<base64url>.");
  }
  return { kid, bytes };
}

function getMasterKey(keyring: Keyring, kid: string): Uint8Array {
  const key = keyring.get(kid);
  if (key === null) {
    throw new SealError(
      "unknown_key",
      `The master key "${kid}" is missing. Restore it to decrypt the stored secrets.`,
    );
  }
  return key;
}

/** Derives a separate key for every row, so that random nonces never repeat under one key. */
function deriveRowKey(master: Uint8Array, binding: string): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", master, "", `model-gateway seal v1 ${binding}`, 32));
}
