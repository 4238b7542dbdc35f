/**
 * The collector of the bench: `bun bench/collector.ts PORT`. It accepts every message and counts its spans, so that a
 * gateway that drops spans is not taken for a cheap one.
 */

import { gunzipSync } from "node:zlib";

export interface CollectorCounts {
  messages: number;
  spans: number;
}

const SPAN_MARK = Buffer.from('"spanId":');
const counts: CollectorCounts = { messages: 0, spans: 0 };

function countSpans(message: Uint8Array): number {
  const text = Buffer.from(gunzipSync(message));
  let spans = 0;
  for (let at = text.indexOf(SPAN_MARK); at !== -1; at = text.indexOf(SPAN_MARK, at + SPAN_MARK.length))
    spans++;
  return spans;
}

Bun.serve({
  port: Number(process.argv[2]),
  hostname: "127.0.0.1",
  async fetch(request) {
    if (request.method === "GET") return Response.json(counts);
    counts.spans += countSpans(new Uint8Array(await request.arrayBuffer()));
    counts.messages++;
    return Response.json({});
  },
});
