/** Runs the tests of several processes on one port in a network namespace, because they change a switch of the kernel. */

import { expect, test } from "bun:test";
import { join } from "node:path";
import { runInOwnNetwork } from "../support/own-network.ts";

const FILE = join(import.meta.dir, "processes-on-one-port.ts");
const WITHIN_MS = 1_800_000;

test(
  "several processes on one port",
  async () => expect(await runInOwnNetwork([process.execPath, "test", FILE])).toBe(0),
  WITHIN_MS,
);
