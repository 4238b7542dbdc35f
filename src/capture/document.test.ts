import { expect, test } from "bun:test";
import type { CapturedBytes } from "./capped-bytes.ts";
import { buildDocument } from "./document.ts";

const REPLACEMENT_BYTES = Buffer.from("\uFFFD");
const CPU_MS_MAX = 500;

function readCaptured(body: CapturedBytes): string {
  const draft = {
    request: { method: "POST", path: "/", transport: "http" as const, headers: [], body },
    attempts: [],
    response: { status: 200, stream: false, body: null, isComplete: true },
  };
  return buildDocument(draft, { secrets: [], patterns: [] }).request.body?.text ?? "";
}

test("a character that an omission has cut is removed at both ends", () => {
  const body = Buffer.from("ü ä, much more, ö ü");
  const kept = { head: body.subarray(0, 4), tail: body.subarray(-4), totalBytes: body.length };
  expect(readCaptured(kept)).toBe(`ü \n[${body.length - 8} bytes omitted]\n ü`);
});

test("a body of replacement characters is read in linear time", () => {
  const filler = Buffer.alloc(512 * 1024, REPLACEMENT_BYTES);
  const head = Buffer.concat([Buffer.from("a "), filler, Buffer.from(" b ")]);
  const tail = Buffer.concat([Buffer.from(" a "), filler, Buffer.from(" b")]);
  const before = process.cpuUsage();
  const text = readCaptured({ head, tail, totalBytes: 4 * 1024 * 1024 });
  const { user, system } = process.cpuUsage(before);
  expect(text).toStartWith("a \uFFFD");
  expect((user + system) / 1000).toBeLessThan(CPU_MS_MAX);
});
