/** A gateway in a separate process in front of the test's simulator, so that its memory can be measured. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startGatewayProcess } from "./gateway-process.ts";
import { gatewayFile } from "./running-gateway.ts";

export interface SpawnedGateway {
  /** Without `/v1`. */
  url: string;
  residentBytes(): number;
  stop(): Promise<void>;
}

export async function spawnGateway(
  models: Readonly<Record<string, string>>,
  simulatorUrl: string,
): Promise<SpawnedGateway> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-test-"));
  await Bun.write(join(folder, "gateway.yaml"), gatewayFile({ models }));
  const gateway = await startGatewayProcess({
    folder,
    args: ["--config", "gateway.yaml"],
    env: { SIMULATOR_URL: simulatorUrl },
  });
  return {
    url: gateway.url,
    residentBytes: () => readResidentBytes(gateway.pid),
    async stop() {
      await gateway.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function readResidentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}
