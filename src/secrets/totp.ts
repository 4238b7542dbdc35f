/** Codes of authenticator apps: RFC 6238 with SHA-1, 30 seconds and six digits, which all apps support. */

import { createHmac, timingSafeEqual } from "node:crypto";
import type { RandomBytes } from "./keyring.ts";

const SECRET_BYTES = 20;
const STEP_MS = 30_000;
const DIGITS = 6;
/** The alphabet of RFC 4648. */
const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** In base32, as apps expect it. */
export function mintTotpSecret(randomBytes: RandomBytes): string {
  return toBase32(randomBytes(SECRET_BYTES));
}

export function totpCode(secret: string, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac("sha1", fromBase32(secret)).update(counter).digest();
  const offset = (mac.at(-1) ?? 0) & 0x0f;
  const number = mac.readUInt32BE(offset) & 0x7fffffff;
  return String(number % 10 ** DIGITS).padStart(DIGITS, "0");
}

export function totpStep(nowMs: number): number {
  return Math.floor(nowMs / STEP_MS);
}

/** The time step of a code: the current or a neighbouring one, because clocks differ; else null. */
export function findTotpStep(secret: string, code: string, nowMs: number): number | null {
  const now = totpStep(nowMs);
  return [now, now - 1, now + 1].find((step) => equalsConstantTime(totpCode(secret, step), code)) ?? null;
}

export function isTotpCode(text: string): boolean {
  return /^\d{6}$/.test(text);
}

/** The URL for QR codes, and for apps on the same machine. */
export function otpauthUrl(secret: string, { issuer, account }: { issuer: string; account: string }): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(account)}`;
  return `otpauth://totp/${label}?secret=${secret}&issuer=${encodeURIComponent(issuer)}`;
}

function equalsConstantTime(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

function toBase32(bytes: Uint8Array): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? [])
    .map((part) => BASE32.charAt(Number.parseInt(part.padEnd(5, "0"), 2)))
    .join("");
}

function fromBase32(text: string): Buffer {
  const bits = [...text].map((char) => BASE32.indexOf(char).toString(2).padStart(5, "0")).join("");
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}
