/** The gateway as its users start it: a process of its own, whose memory can be measured. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { eventually } from "./eventually.ts";
import { type GatewayOptions, gatewayFile } from "./running-gateway.ts";

const PROGRAM = resolve(import.meta.dir, "../bin/model-gateway");
const READY_WITHIN_MS = 30_000;

export interface SpawnedGateway {
  url: string;
  residentBytes(): number;
  stop(): Promise<void>;
}

export async function spawnGateway(options: GatewayOptions, simulatorUrl: string): Promise<SpawnedGateway> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-test-"));
  const config = join(folder, "gateway.yaml");
  await Bun.write(config, options.file ?? gatewayFile(options));
  // Not what the test runner was started with: the start script has to see to it.
  const { BUN_CONFIG_MAX_HTTP_REQUESTS: _, ...environment } = process.env;
  const child = Bun.spawn(
    [PROGRAM, "start", "--config", config, "--data", join(folder, "data"), "--port", "0"],
    {
      env: { ...environment, SIMULATOR_URL: simulatorUrl, NO_COLOR: "1" },
      stdout: "pipe",
      stderr: "ignore",
    },
  );
  const kill = () => child.kill("SIGKILL");
  process.on("exit", kill);
  let printed = "";
  void (async () => {
    const decoder = new TextDecoder();
    for await (const part of child.stdout) printed += decoder.decode(part, { stream: true });
  })();
  const url = await eventually(() => {
    if (child.exitCode !== null) throw new Error(`the gateway ended with ${child.exitCode}: ${printed}`);
    return /(http:\/\/127\.0\.0\.1:\d+)\/v1\s/.exec(printed)?.[1];
  }, READY_WITHIN_MS);
  return {
    url,
    residentBytes() {
      const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
      return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
    },
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(kill, 5_000);
      await child.exited;
      clearTimeout(timer);
      process.off("exit", kill);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
