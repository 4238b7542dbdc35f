/** Creates empty installations in temporary directories. */

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseSqlitePath } from "../../store/engine/db.ts";
import { readSettings, type Settings } from "./environment.ts";
import { type Installation, openInstallation } from "./installation.ts";

export interface FreshInstallation {
  gateway: Installation;
  /** Closes the installation and deletes its directory. */
  remove(): Promise<void>;
}

export async function freshInstallation(): Promise<FreshInstallation> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-fresh-"));
  const gateway = await openNewInstallation(readTestSettings(folder), {});
  return {
    gateway,
    async remove() {
      await gateway.db.close();
      rmSync(folder, { recursive: true });
    },
  };
}

function readTestSettings(folder: string): Settings {
  const result = readSettings({ flags: { data: folder }, environment: {} });
  if (!result.ok) throw new Error(result.problems.join());
  return result.settings;
}

interface Template {
  readonly database: Uint8Array;
  readonly masterKey: Uint8Array;
}

/** The files of an installation that was created and closed. One for each process of the test runner. */
let template: Promise<Template> | null = null;

async function createTemplate(): Promise<Template> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-template-"));
  const settings = readTestSettings(folder);
  const { db } = await openInstallation(settings, {});
  await db.close();
  const database = readFileSync(parseSqlitePath(settings.databaseUrl) ?? "");
  const masterKey = readFileSync(settings.masterKeyFile);
  rmSync(folder, { recursive: true });
  return { database, masterKey };
}

/**
 * As `openInstallation`, for an installation that does not exist. On SQLite it is a copy of the template, with the same
 * master key and pepper: migrating an empty database takes a third of the time in which a gateway starts.
 */
export async function openNewInstallation(
  settings: Settings,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Installation> {
  const path = parseSqlitePath(settings.databaseUrl);
  const hasOwnKey = environment.MODEL_GATEWAY_MASTER_KEY !== undefined || existsSync(settings.masterKeyFile);
  if (path !== null && path !== ":memory:" && !existsSync(path) && !hasOwnKey) {
    template ??= createTemplate();
    const { database, masterKey } = await template;
    mkdirSync(settings.dataDir, { recursive: true, mode: 0o700 });
    writeFileSync(path, database, { mode: 0o600 });
    writeFileSync(settings.masterKeyFile, masterKey, { mode: 0o600 });
  }
  return openInstallation(settings, environment);
}
