/** One server per data folder, with commands beside it. */

import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";

setDefaultTimeout(60_000);

let folder = "";
let gateway: GatewayProcess | null = null;

afterEach(async () => {
  await gateway?.stop();
  gateway = null;
  rmSync(folder, { recursive: true, force: true });
});

test("a second start is rejected with the pid of the first; commands work; a kill frees the folder", async () => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-folder-"));
  gateway = await startGatewayProcess({ folder });
  const second = await runCommand(["start"], { folder, env: { PORT: "0" } });
  expect(second.code).toBe(1);
  expect(second.output).toContain(`is in use by process ${gateway.pid} on `);
  const elsewhere = await runCommand(["start", "--data", "other"], {
    folder,
    env: { PORT: "0", DATABASE_URL: `sqlite:${join(folder, "data", "gateway.db")}` },
  });
  expect(elsewhere.code).toBe(1);
  expect(elsewhere.output).toContain("gateway.db is in use by another server");
  for (const args of [["audit"], ["keys", "list"], ["plans", "list"], ["backup", join(folder, "copy.db")]]) {
    const { code, output } = await runCommand(args, { folder });
    expect(`${args.join(" ")}: ${code}`).toBe(`${args.join(" ")}: 0`);
    expect(output).not.toBe("");
  }
  expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200);
  process.kill(gateway.pid, "SIGKILL");
  await gateway.exited;
  gateway = await startGatewayProcess({ folder });
  expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200);
});
