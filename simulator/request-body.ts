/** Reads request bodies. */

import { readBoundary } from "../src/net/wire/multipart.ts";
import { type MultipartForm, MultipartReader } from "./multipart.ts";

/** A request body as the endpoints and the ledger need it. */
export interface RequestBody {
  text: string;
  form: MultipartForm | null;
  bytes: number;
  sha256: string | null;
  raw: Uint8Array | null;
}

const KEPT_BYTES_MAX = 1024 * 1024;

export async function readBody(request: Request, full: boolean): Promise<RequestBody> {
  const contentType = request.headers.get("content-type");
  if (contentType !== null && /^multipart\//i.test(contentType)) return readMultipart(request, full);
  if (!full) {
    const text = await request.text();
    const length = request.headers.get("content-length");
    const bytes = length === null ? Buffer.byteLength(text) : Number(length);
    return { text, form: null, bytes, sha256: null, raw: null };
  }
  const raw = await request.bytes();
  return {
    text: new TextDecoder().decode(raw),
    form: null,
    bytes: raw.length,
    sha256: computeDigest(raw),
    raw,
  };
}

/** Reads a WebSocket message. */
export function readText(text: string, full: boolean): RequestBody {
  if (!full) return { text, form: null, bytes: Buffer.byteLength(text), sha256: null, raw: null };
  const raw = Buffer.from(text);
  return { text, form: null, bytes: raw.length, sha256: computeDigest(raw), raw };
}

function computeDigest(raw: Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(raw).digest("hex");
}

async function readMultipart(request: Request, full: boolean): Promise<RequestBody> {
  const boundary = readBoundary(request.headers.get("content-type") ?? "");
  const reader = boundary === null ? null : new MultipartReader(boundary);
  const hasher = full ? new Bun.CryptoHasher("sha256") : null;
  let bytes = 0;
  let chunks: Uint8Array[] | null = full ? [] : null;
  if (request.body !== null) {
    for await (const chunk of request.body) {
      bytes += chunk.length;
      hasher?.update(chunk);
      reader?.push(chunk);
      if (bytes > KEPT_BYTES_MAX) chunks = null;
      chunks?.push(chunk);
    }
  }
  const form = reader?.end() ?? null;
  const raw = chunks === null ? null : Buffer.concat(chunks);
  return { text: formAsJson(form), form, bytes, sha256: hasher?.digest("hex") ?? null, raw };
}

const NUMERIC_FIELDS: ReadonlySet<string> = new Set(["n", "partial_images", "output_compression"]);

/** Form values are all strings. Converted to the equivalent JSON body, they need no separate parser. */
function formAsJson(form: MultipartForm | null): string {
  if (form === null) return "";
  const fields: Record<string, unknown> = {};
  for (const [name, value] of form.texts) {
    if (NUMERIC_FIELDS.has(name) && /^\d{1,6}$/.test(value)) fields[name] = Number(value);
    else if (name === "stream") fields[name] = value === "true";
    else fields[name] = value;
  }
  return JSON.stringify(fields);
}
