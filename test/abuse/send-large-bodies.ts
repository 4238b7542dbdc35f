/** Sends a request that is expensive to read: `bun send-large-bodies.ts URL SHAPE`. A separate program. */

import { brotliCompressSync, constants } from "node:zlib";
import { TEST_KEY } from "../support/running-gateway.ts";

const BYTES = 62 * 1024 * 1024;

interface LargeRequest {
  readonly path: string;
  readonly body: Buffer | null;
  readonly headers: Readonly<Record<string, string>>;
}

/** The requests by their shape: a body of 62 MiB with a member of this content, or a long query. */
export const SHAPES: ReadonlyMap<string, () => LargeRequest> = new Map([
  ["ones", () => chat(`[${"1,".repeat(BYTES / 2)}1]`)],
  ["objects", () => chat(`[${'{"a":1},'.repeat(BYTES / 8)}{}]`)],
  ["escaped quotes", () => chat(`"${'\\"'.repeat(BYTES / 2)}"`)],
  ["text", () => chat(`"${"text ".repeat(BYTES / 5)}"`)],
  ["brotli", () => compress(chat(`"${"x".repeat(BYTES)}"`))],
  ["query", longQuery],
]);

export function attackBytes(shape: string): number {
  const { path, body } = buildRequest(shape);
  return path.length + (body?.length ?? 0);
}

function buildRequest(shape: string): LargeRequest {
  const build = SHAPES.get(shape);
  if (build === undefined) throw new Error(`there is no shape ${shape}`);
  return build();
}

function chat(content: string): LargeRequest {
  const message = '{"role":"user","content":"hi"}';
  return {
    path: "/v1/chat/completions",
    body: Buffer.from(`{"model":"fast-chat","messages":[${message}],"metadata":${content}}`),
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
  };
}

function compress({ path, body, headers }: LargeRequest): LargeRequest {
  const params = { [constants.BROTLI_PARAM_QUALITY]: 1 };
  const packed = brotliCompressSync(body ?? Buffer.alloc(0), { params });
  return { path, body: packed, headers: { ...headers, "content-encoding": "br" } };
}

function longQuery(): LargeRequest {
  const names = Array.from({ length: 15_000 }, (_, index) => `p${index.toString(36)}=1`);
  return { path: `/api/session?${names.join("&")}`, body: null, headers: {} };
}

if (import.meta.main) {
  const [url = "", shape = ""] = process.argv.slice(2);
  const { path, body, headers } = buildRequest(shape);
  const sent = body === null ? {} : { method: "POST", body: Uint8Array.from(body) };
  const response = await fetch(url + path, { ...sent, headers });
  await response.arrayBuffer();
  process.exit(0);
}
