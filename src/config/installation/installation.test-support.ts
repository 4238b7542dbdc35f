/** Creates an empty installation in a temporary directory. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readSettings } from "./environment.ts";
import { type Installation, openInstallation } from "./installation.ts";

export interface FreshInstallation {
  gateway: Installation;
  /** Closes the installation and deletes its directory. */
  remove(): Promise<void>;
}

export async function freshInstallation(): Promise<FreshInstallation> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-fresh-"));
  const result = readSettings({ flags: { data: folder }, environment: {} });
  if (!result.ok) throw new Error(result.problems.join());
  const gateway = await openInstallation(result.settings, {});
  return {
    gateway,
    async remove() {
      await gateway.db.close();
      rmSync(folder, { recursive: true });
    },
  };
}
