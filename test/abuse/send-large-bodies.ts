/** Sends bodies that are expensive to read: `bun send-large-bodies.ts URL SHAPE TIMES`. A separate program. */

import { brotliCompressSync, constants } from "node:zlib";
import { TEST_KEY } from "../support/running-gateway.ts";

const [url = "", shape = "", times = "1"] = process.argv.slice(2);
const BYTES = 62 * 1024 * 1024;
const SHAPES: Readonly<Record<string, () => string>> = {
  ones: () => `[${"1,".repeat(BYTES / 2)}1]`,
  objects: () => `[${'{"a":1},'.repeat(BYTES / 8)}{}]`,
  "escaped quotes": () => `"${'\\"'.repeat(BYTES / 2)}"`,
  text: () => `"${"text ".repeat(BYTES / 5)}"`,
  brotli: () => `"${"x".repeat(BYTES)}"`,
};

async function sendQuery(): Promise<void> {
  const names = Array.from({ length: 15_000 }, (_, index) => `p${index.toString(36)}=1`);
  await fetch(`${url}/api/session?${names.join("&")}`);
}

async function sendBody(body: Uint8Array<ArrayBuffer>, encoding: Record<string, string>): Promise<void> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json", ...encoding },
    body,
  });
  await response.arrayBuffer();
}

if (shape === "query") {
  for (let sent = 0; sent < Number(times); sent++) await sendQuery();
} else {
  const content = SHAPES[shape]?.() ?? "null";
  const json = Buffer.from(
    `{"model":"fast-chat","messages":[{"role":"user","content":"hi"}],"metadata":${content}}`,
  );
  const isPacked = shape === "brotli";
  const params = { [constants.BROTLI_PARAM_QUALITY]: 1 };
  const body = isPacked ? brotliCompressSync(json, { params }) : json;
  for (let sent = 0; sent < Number(times); sent++) {
    await sendBody(Uint8Array.from(body), isPacked ? { "content-encoding": "br" } : {});
  }
}
process.exit(0);
