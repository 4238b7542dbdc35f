import { expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { AuditLogVerifier } from "./audit-log-verifier.ts";

/** Verifications end when the test ends them. */
function openVerifier() {
  let nowMs = 0;
  const ends: { resolve(): void; reject(error: Error): void }[] = [];
  const verifier = new AuditLogVerifier({
    nowMs: () => nowMs,
    verify: () =>
      new Promise((resolve, reject) =>
        ends.push({ resolve: () => resolve({ rows: 1, head: "", broken: [] }), reject }),
      ),
  });
  return {
    verifier,
    begun: () => ends.length,
    end: (at: number) => ends[at]?.resolve(),
    fail: (at: number) => ends[at]?.reject(new Error("lost")),
    setClock: (ms: number) => {
      nowMs = ms;
    },
  };
}

test("one verification runs at a time, and all that were requested meanwhile share the next one", async () => {
  const { verifier, begun, end, setClock } = openVerifier();
  const first = verifier.verify();
  const others = Array.from({ length: 20 }, () => verifier.verify());
  expect(begun()).toBe(1);
  setClock(5);
  end(0);
  expect((await first).atMs).toBe(0);
  await eventually(begun, { equals: 2 });
  end(1);
  expect((await Promise.all(others)).map(({ atMs }) => atMs)).toEqual(Array(20).fill(5));
  expect(begun()).toBe(2);
});

test("a recent result needs no verification for a minute", async () => {
  const { verifier, begun, end, setClock } = openVerifier();
  const read = [verifier.readRecent(), verifier.readRecent()];
  end(0);
  await Promise.all(read);
  setClock(59_999);
  expect((await verifier.readRecent()).atMs).toBe(0);
  setClock(60_000);
  const later = verifier.readRecent();
  await eventually(begun, { equals: 2 });
  end(1);
  expect((await later).atMs).toBe(60_000);
  expect(begun()).toBe(2);
});

test("after a failed verification the next one runs", async () => {
  const { verifier, begun, end, fail } = openVerifier();
  const failed = verifier.verify();
  const next = verifier.verify();
  fail(0);
  await expect(failed).rejects.toThrow("lost");
  await eventually(begun, { equals: 2 });
  end(1);
  expect((await next).rows).toBe(1);
});
