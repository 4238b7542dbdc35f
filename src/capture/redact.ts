/**
 * Removes secrets and inline media from captured text, before anything is stored. Every pattern is matched in linear
 * time. Matching by pattern is best effort: a secret in an unknown format stays.
 */

import { createHash } from "node:crypto";
import type { CaptureRedaction } from "../records/capture.ts";
import { ISSUED_SECRETS } from "../secrets/issued-secrets.ts";
import { mapSpan, openViews, type TextSpan } from "./text-view.ts";

export interface RedactionRules {
  /** Secrets that are known, such as the caller's key. They are removed wherever they occur. */
  readonly secrets: readonly string[];
  readonly patterns: readonly CaptureRedaction[];
}

/** Shorter values would also match ordinary words. */
const SECRET_CHARS_MIN = 8;

export function redactText(text: string, { secrets, patterns }: RedactionRules): string {
  const known = secrets.filter((secret) => secret.length >= SECRET_CHARS_MIN);
  let redacted = removeFound(text, (view) => known.flatMap((secret) => findAll(view, secret)));
  redacted = removeCredentials(removeMedia(redacted));
  for (const name of patterns) redacted = CHOSEN[name](redacted);
  return redacted;
}

/**
 * Both ends of an omission, where a secret or media may be cut in two: the broken rest is shorter than the patterns
 * require, so it is removed whatever it is.
 */
export function trimCutEnd(head: string): string {
  let end = head.length;
  // A pattern that ends with `$` would try again at every character of a long word.
  while (end > 0 && WORD_CHARACTER.test(head[end - 1] ?? "")) end--;
  return head.slice(0, end);
}

export function trimCutStart(tail: string): string {
  return tail.replace(/^[\w+/=.\\-]+/, "");
}

const WORD_CHARACTER = /[\w+/=.\\-]/;

function mark(kind: string): string {
  return `[redacted ${kind}]`;
}

// Media.

const DATA_URL = /data:([a-z]{1,20}\/[\w.+-]{1,80})?(?:;[\w=.-]{1,80}){0,4},(?:[^"'\\\s<>)]|\\\/)*/gi;
/** Members that hold media in Base64, in the supported dialects. */
const MEDIA_MEMBER =
  /(\\{0,7}"(?:data|b64_json|file_data|image|image_data|audio|bytes|partial_image_b64|encrypted_content|bytesBase64Encoded)\\{0,7}"\s{0,8}:\s{0,8}\\{0,7}")([A-Za-z0-9+/_=-]*(?:\\\/[A-Za-z0-9+/_=-]*)*)/g;
const MEDIA_MEMBER_CHARS_MIN = 24;
/** The minimum lengths are not in the patterns: a repeated group with a minimum is slow. */
const BASE64 = /(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]+(?:\\\/[A-Za-z0-9+/_-]*)*={0,2}/g;
/** Text without blanks of this length is Base64, not language. */
const BASE64_CHARS_MIN = 256;

function removeMedia(text: string): string {
  return text
    .replace(DATA_URL, (url, type: string | undefined) => describeMedia(afterComma(url), type))
    .replace(MEDIA_MEMBER, (whole, name: string, value: string) =>
      value.length < MEDIA_MEMBER_CHARS_MIN ? whole : name + describeMedia(value),
    )
    .replace(BASE64, (value) => (value.length < BASE64_CHARS_MIN ? value : describeMedia(value)));
}

function afterComma(url: string): string {
  return url.slice(url.indexOf(",") + 1);
}

/** The digest shows whether two captures have the same media. */
function describeMedia(encoded: string, type = "base64"): string {
  const bytes = Buffer.from(encoded.replaceAll("\\/", "/"), "base64");
  const digest = createHash("sha256").update(bytes).digest("hex").slice(0, 16);
  return mark(`${type}, ${bytes.length} bytes, sha256 ${digest}`);
}

// Keys and credentials.

const KEY_FORMS: readonly RegExp[] = [
  ...Object.values(ISSUED_SECRETS),
  /\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}/g,
  // From the start of a run only: each part of a run without a dot would be read to its end.
  /(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?/g,
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,16384}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g,
  /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/g,
  /\bAIza[0-9A-Za-z_-]{30,}/g,
  /\bgh[pousr]_[A-Za-z0-9]{30,}/g,
  /\bgithub_pat_\w{20,}/g,
  /\bxox[abeprs]-[A-Za-z0-9-]{10,}/g,
  /\b(?:hf|gsk|xai|r8|nvapi|tvly|glpat)[-_][A-Za-z0-9_-]{20,}/g,
  /\bya29\.[\w-]{20,}/g,
];
/** Credentials by the words before them: the scheme of a header, and the parts of an address. */
const CREDENTIAL_FORMS: readonly RegExp[] = [
  /(?<=\b(?:bearer|basic)\s{1,4})[A-Za-z0-9._~+/=-]{12,}/gi,
  /(?<=\bhttps?:\/\/)[^\s/@"\\]{1,256}(?=@)/gi,
  /(?<=[?&](?:key|api[-_]?key|token|access[-_]?token|sig|signature|x-amz-signature|x-amz-credential|password)=)[^&\s"'\\#]{6,}/gi,
];
/** Members whose string is a credential, also in JSON within a string. */
const SECRET_MEMBER =
  /(\\{0,7}"(?:api[-_]?key|x-api-key|x-goog-api-key|authorization|proxy-authorization|password|passwd|secret|client[-_]?secret|secret[-_]?access[-_]?key|access[-_]?token|refresh[-_]?token|id[-_]?token|auth[-_]?token|private[-_]?key|cookie|set-cookie)\\{0,7}"\s{0,8}:\s{0,8}\\{0,7}")(?:[^"\\]|\\[^"])+/gi;

function removeCredentials(text: string): string {
  const named = text.replace(SECRET_MEMBER, (_, name: string) => name + mark("credential"));
  return removeFound(named, (view) => [
    ...KEY_FORMS.flatMap((form) => matchAll(view, { form, kind: "key" })),
    ...CREDENTIAL_FORMS.flatMap((form) => matchAll(view, { form, kind: "credential" })),
  ]);
}

interface FoundSecret extends TextSpan {
  readonly kind: "key" | "credential";
}

/** Removes what is found in any view of the text. Of a secret that events split, the first part has the mark. */
function removeFound(text: string, find: (view: string) => FoundSecret[]): string {
  const cuts: { start: number; end: number; replacement: string }[] = [];
  for (const view of openViews(text)) {
    for (const found of find(view.text)) {
      for (const [i, { start, end }] of mapSpan(view, found).entries())
        cuts.push({ start, end, replacement: i === 0 ? mark(found.kind) : "" });
    }
  }
  cuts.sort((a, b) => a.start - b.start || b.end - a.end);
  let kept = "";
  let at = 0;
  for (const { start, end, replacement } of cuts) {
    if (start >= at) kept += text.slice(at, start) + replacement;
    at = Math.max(at, end);
  }
  return kept + text.slice(at);
}

function findAll(view: string, secret: string): FoundSecret[] {
  const found: FoundSecret[] = [];
  for (let start = view.indexOf(secret); start >= 0; start = view.indexOf(secret, start + secret.length))
    found.push({ start, end: start + secret.length, kind: "key" });
  return found;
}

function matchAll(view: string, { form, kind }: { form: RegExp; kind: FoundSecret["kind"] }): FoundSecret[] {
  return Array.from(view.matchAll(form), ({ index, 0: match }) => ({
    start: index,
    end: index + match.length,
    kind,
  }));
}

// By choice.

const EMAIL = /(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}/g;
const CARD = /(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)/g;
const PHONE = /(?<![\w.])(?:\+|00)\d{1,3}[ .-]?\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,4}(?!\d)/g;
const IP = /(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])/g;

const CHOSEN: Readonly<Record<CaptureRedaction, (text: string) => string>> = {
  email: (text) => text.replace(EMAIL, mark("email")),
  card: (text) => text.replace(CARD, (digits) => (isCardNumber(digits) ? mark("card") : digits)),
  phone: (text) => text.replace(PHONE, mark("phone")),
  ip: (text) => text.replace(IP, mark("ip")),
};

/** The check digit of payment cards (Luhn). */
function isCardNumber(text: string): boolean {
  const digits = text.replaceAll(/\D/g, "");
  let sum = 0;
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits[digits.length - 1 - i]);
    const doubled = i % 2 === 1 ? digit * 2 : digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

// Headers.

/** These headers are credentials: their presence is shown, their value never. */
const SECRET_HEADERS: ReadonlySet<string> = new Set([
  "authorization",
  "proxy-authorization",
  "x-api-key",
  "api-key",
  "x-goog-api-key",
  "cookie",
  "set-cookie",
]);

export function redactHeader(name: string, value: string, rules: RedactionRules): string {
  return SECRET_HEADERS.has(name.toLowerCase()) ? mark("credential") : redactText(value, rules);
}

/** The credentials in a list of headers, without their scheme. */
export function findHeaderSecrets(headers: readonly (readonly [name: string, value: string])[]): string[] {
  return headers
    .filter(([name]) => SECRET_HEADERS.has(name.toLowerCase()))
    .map(([, value]) => value.replace(/^(?:bearer|basic)\s+/i, "").trim());
}
