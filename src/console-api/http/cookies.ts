/**
 * The cookies of the console: those of a session, of a sign-in at a provider, of a confirmation there, and of an account
 * that is about to be linked. With the prefix `__Host-`, browsers send them only to this host, over https or locally. Scripts
 * cannot read them.
 */

import type { HeaderReader } from "../../net/wire/http-fields.ts";

const SESSION_COOKIE = "__Host-session";
const SIGN_IN_COOKIE = "__Host-sign-in";
const CONFIRMATION_COOKIE = "__Host-confirmation";
const PENDING_LINK_COOKIE = "__Host-pending-link";
const ATTRIBUTES = "Path=/; Secure; HttpOnly; SameSite=Lax";

export function sessionCookie(secret: string, maxAgeMs: number): string {
  return `${SESSION_COOKIE}=${secret}; ${ATTRIBUTES}; Max-Age=${Math.floor(maxAgeMs / 1000)}`;
}

export function endedSessionCookie(): string {
  return `${SESSION_COOKIE}=; ${ATTRIBUTES}; Max-Age=0`;
}

export function presentedSession(headers: HeaderReader): string | null {
  return readCookie(headers, SESSION_COOKIE);
}

export function signInCookie(sealed: string, maxAgeMs: number): string {
  return `${SIGN_IN_COOKIE}=${sealed}; ${ATTRIBUTES}; Max-Age=${Math.floor(maxAgeMs / 1000)}`;
}

export function endedSignInCookie(): string {
  return `${SIGN_IN_COOKIE}=; ${ATTRIBUTES}; Max-Age=0`;
}

export function presentedSignIn(headers: HeaderReader): string | null {
  return readCookie(headers, SIGN_IN_COOKIE);
}

export function confirmationCookie(sealed: string, maxAgeMs: number): string {
  return `${CONFIRMATION_COOKIE}=${sealed}; ${ATTRIBUTES}; Max-Age=${Math.floor(maxAgeMs / 1000)}`;
}

export function presentedConfirmation(headers: HeaderReader): string | null {
  return readCookie(headers, CONFIRMATION_COOKIE);
}

export function pendingLinkCookie(sealed: string, maxAgeMs: number): string {
  return `${PENDING_LINK_COOKIE}=${sealed}; ${ATTRIBUTES}; Max-Age=${Math.floor(maxAgeMs / 1000)}`;
}

export function endedPendingLinkCookie(): string {
  return `${PENDING_LINK_COOKIE}=; ${ATTRIBUTES}; Max-Age=0`;
}

export function presentedPendingLink(headers: HeaderReader): string | null {
  return readCookie(headers, PENDING_LINK_COOKIE);
}

/** Searched instead of split: a header may have tens of thousands of separators. */
function readCookie(headers: HeaderReader, wanted: string): string | null {
  const text = headers.get("cookie") ?? "";
  const start = `${wanted}=`;
  for (let at = text.indexOf(start); at !== -1; at = text.indexOf(start, at + start.length)) {
    if (!beginsPair(text, at)) continue;
    const from = at + start.length;
    const end = text.indexOf(";", from);
    return text.slice(from, end === -1 ? undefined : end).trim();
  }
  return null;
}

function beginsPair(text: string, at: number): boolean {
  let before = at - 1;
  while (text[before] === " " || text[before] === "\t") before--;
  return before === -1 || text[before] === ";";
}
