import { expect, test } from "bun:test";
import { connectionsMax, fileDescriptorsMax } from "./file-descriptors.ts";

test("a process reads its maximum number of file descriptors", async () => {
  const script = `${import.meta.dir}/file-descriptors.ts`;
  const asking = `console.log((await import(${JSON.stringify(script)})).fileDescriptorsMax())`;
  const { stdout } = Bun.spawnSync([
    "sh",
    "-c",
    'ulimit -n 123; exec "$0" -e "$1"',
    process.execPath,
    asking,
  ]);
  expect(stdout.toString().trim()).toBe("123");
  expect(fileDescriptorsMax()).toBeGreaterThan(123);
});

test("the connection maximum leaves descriptors for the upstream connections", () => {
  expect(connectionsMax(64)).toBe(16);
  expect(connectionsMax(256)).toBe(96);
  expect(connectionsMax(1_024)).toBe(480);
  expect(connectionsMax(65_536)).toBe(60_536);
  expect(connectionsMax(Number.POSITIVE_INFINITY)).toBe(Number.POSITIVE_INFINITY);
});
