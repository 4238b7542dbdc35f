import { expect, test } from "bun:test";
import { descriptorsMax } from "./descriptors.ts";

test("a process knows how many descriptors it may have", async () => {
  const script = `${import.meta.dir}/descriptors.ts`;
  const asking = `console.log((await import(${JSON.stringify(script)})).descriptorsMax())`;
  const { stdout } = Bun.spawnSync([
    "sh",
    "-c",
    'ulimit -n 123; exec "$0" -e "$1"',
    process.execPath,
    asking,
  ]);
  expect(stdout.toString().trim()).toBe("123");
  expect(descriptorsMax()).toBeGreaterThan(123);
});
