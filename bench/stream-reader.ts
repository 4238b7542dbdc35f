/**
 * A client of streams, in a separate process because the limit of open requests belongs to a process:
 * `bun bench/stream-reader.ts URL STREAMS HOLD_MS`, with the body on stdin and the key in BENCH_KEY. It keeps that many
 * streams open for that long and prints what it saw as one line of JSON.
 */

export interface ReaderReport {
  opened: number;
  failed: number;
  /** Streams that were still being written to when the time was over. */
  openAtEnd: number;
  /** When the streams began to close. */
  heldUntilMs: number;
  chunks: number;
  events: number;
  firstFailure: string | null;
}

const [, , url = "", streamsText = "1", holdText = "1000"] = process.argv;
const streams = Number(streamsText);
const deadline = performance.now() + Number(holdText);
const body = await Bun.stdin.text();
const report: ReaderReport = {
  opened: 0,
  failed: 0,
  openAtEnd: 0,
  heldUntilMs: Date.now() + Number(holdText),
  chunks: 0,
  events: 0,
  firstFailure: null,
};

function countEvents(chunk: Uint8Array): number {
  let events = 0;
  for (let i = 1; i < chunk.length; i++) if (chunk[i] === 10 && chunk[i - 1] === 10) events++;
  return events;
}

async function readOne(): Promise<void> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${process.env.BENCH_KEY}` },
    body,
  });
  if (response.status !== 200 || response.body === null) throw new Error(`status ${response.status}`);
  let seen = false;
  for await (const chunk of response.body) {
    if (!seen) report.opened++;
    seen = true;
    report.chunks++;
    report.events += countEvents(chunk);
    if (performance.now() > deadline) {
      report.openAtEnd++;
      return;
    }
  }
}

async function keepOneOpen(): Promise<void> {
  while (performance.now() < deadline) {
    try {
      await readOne();
    } catch (thrown) {
      report.failed++;
      report.firstFailure ??= String(thrown);
      return;
    }
  }
}

await Promise.all(Array.from({ length: streams }, keepOneOpen));
console.log(JSON.stringify(report));
process.exit(0);
