import { expect, test } from "bun:test";
import { systemClock } from "../base/clock.ts";
import { limits } from "../config/limits/product-limits.ts";
import { FrameInspector } from "./frame-inspector.ts";

const inspectorOptions = {
  depthMax: 64,
  echoBytesMax: limits.socketWarmUpEchoBytesMax,
  threadLimits: limits.inspectionThreads,
  monotonicMs: systemClock.monotonicMs,
};

test("a long message in a larger buffer of its own is moved to the thread, not copied", async () => {
  const text = `{"type":"response.create","model":"m","input":"${"x".repeat(1024 * 1024)}"}`;
  const bytes = Buffer.allocUnsafeSlow(4 * text.length).subarray(0, text.length);
  bytes.write(text);
  const { buffer } = bytes;
  const inspector = new FrameInspector(inspectorOptions);
  const reading = inspector.read(bytes, "key");
  const frame = await reading;
  expect(buffer.byteLength).toBe(0);
  inspector.close();
  expect(frame.kind).toBe("create");
  if (frame.kind === "create") expect(Buffer.from(frame.bytes).toString()).toBe(text);
});
