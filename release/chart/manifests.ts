/**
 * The plain manifests of `deploy/kubernetes`, for clusters without Helm: what the chart renders for two common cases.
 */

import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT, readSource, readText } from "../source.ts";
import { CHART } from "./files.ts";
import { setVersion } from "./package.ts";

const CASES: Readonly<Record<string, { head: string; values: readonly string[] }>> = {
  "one-node.yaml": {
    head: "One node with SQLite on a volume of its own.",
    values: [],
  },
  "several-nodes.yaml": {
    head: `Three nodes on PostgreSQL. Create their secrets first:
#   kubectl create secret generic model-gateway \\
#     --from-literal=url='postgres://user:password@host/database' \\
#     --from-literal=master-key="$(openssl rand -base64 32)"`,
    values: [
      "replicas=3",
      'database={"existingSecret":"model-gateway"}',
      'masterKey={"existingSecret":"model-gateway"}',
    ],
  },
};

/** Each manifest by its path. Needs the program `helm`. */
export function renderManifests(helm: string): Readonly<Record<string, string>> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-chart-"));
  try {
    cpSync(join(ROOT, CHART), folder, { recursive: true });
    const { version } = readSource({ SOURCE_DATE_EPOCH: "0" });
    writeFileSync(join(folder, "Chart.yaml"), setVersion(readText(`${CHART}/Chart.yaml`), version));
    return Object.fromEntries(
      Object.entries(CASES).map(([name, { head, values }]) => [
        `deploy/kubernetes/${name}`,
        `# ${head}\n# Generated from the Helm chart by npm run docs:chart.\n${render(helm, folder, values)}`,
      ]),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function render(helm: string, folder: string, values: readonly string[]): string {
  const flags = values.flatMap((value) => ["--set-json", value]);
  // Helm would assume the version of Kubernetes that it was built for.
  const command = [helm, "template", "model-gateway", folder, "--kube-version", "1.30.0", ...flags];
  const { exitCode, stdout, stderr } = Bun.spawnSync(command);
  if (exitCode !== 0) throw new Error(stderr.toString());
  return stdout
    .toString()
    .replaceAll(/^(?:# Source: .*| *(?:helm\.sh\/chart|app\.kubernetes\.io\/managed-by): .*)\n/gm, "");
}
