/** SCIM 2.0 as the compliance tester from PyPI checks it. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readProcessResult } from "../support/process-result.ts";
import { startTestGateway } from "../support/running-gateway.ts";
import { openScimClient } from "../support/scim-client.ts";

/** Prints one line for each check that did not succeed, and the counts last. */
const SCRIPT = `
import sys
from collections import Counter
from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import check_server, Status

url, token = sys.argv[1:]
http = Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
scim = SyncSCIMClient(http)
scim.discover()
results = check_server(scim)
for result in results:
    if result.status not in (Status.SUCCESS, Status.SKIPPED, Status.ACCEPTABLE):
        print(result.status.name, result.title, result.resource_type, result.reason)
counts = Counter(result.status.name for result in results)
print(" ".join(f"{name}={count}" for name, count in sorted(counts.items())))
sys.exit(1 if counts["ERROR"] + counts["CRITICAL"] + counts["DEVIATION"] > 0 or counts["SUCCESS"] < 50 else 0)
`;

export async function scimPasses(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "scim-tester-"));
  const gateway = await startTestGateway();
  try {
    await gateway.apply(`
sign_in: { providers: [{ name: corp, issuer: "https://login.example.com", client_id: gateway }] }
scim: { provider: corp }
`);
    const { secret } = await openScimClient(gateway);
    await run(["python3", "-m", "venv", folder]);
    await run([join(folder, "bin/pip"), "install", "--quiet", "scim2-tester==0.5.2", "httpx2"]);
    const script = join(folder, "check.py");
    await writeFile(script, SCRIPT);
    return (await run([join(folder, "bin/python"), script, `${gateway.url}/scim/v2`, secret])).trim();
  } finally {
    await gateway.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Also the output of a check that failed. */
async function run(command: readonly string[]): Promise<string> {
  const { code, out, err } = await readProcessResult(
    Bun.spawn([...command], { stdout: "pipe", stderr: "pipe" }),
  );
  if (code !== 0) throw new Error(`${command[0]}: ${out}${err}`);
  return out;
}
