/**
 * Runs the server for `start`: applies the configuration file if there is one, starts the server, prints where it listens,
 * and shuts down in order.
 */

import { existsSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { offerAdminClaim } from "../config/first-run/admin-claim.ts";
import { createDemo, demoKeyFile } from "../config/first-run/demo.ts";
import { defaultDataDir, localUrl, readSettings, type Settings } from "../config/installation/environment.ts";
import { type Installation, openInstallation } from "../config/installation/installation.ts";
import { applyChanges, planChanges } from "../config/plan/apply.ts";
import type { GatewayFile } from "../config/schema/schema.ts";
import { durationText } from "../config/schema/usage-limits.ts";
import { BUILT_DIR, type Running, type ServerSettings, startGateway } from "../main.ts";
import { describeStore } from "../store/engine/dialect.ts";
import { VERSION } from "../version.ts";
import { printProblems, readConfigSource } from "./apply.ts";
import { Failure, type Input, misuse } from "./command.ts";
import { lockDataFolder } from "./folder-in-use.ts";
import { chooseSecretTarget, storeSecrets } from "./secret-output.ts";
import { ServiceManager } from "./service-manager.ts";
import { type CreatedKey, createdKeys, type StartupFacts, startupText } from "./startup-text.ts";
import { readCommandSettings, WRONG_SETTING, withInstallation } from "./store-access.ts";

export async function runServer(input: Input): Promise<number> {
  // Validates the settings before anything is created.
  readServerSettings(input, undefined);
  // Before the store is opened: a second server of a newer version must not migrate the schema of the first one.
  const lock = lockDataFolder(readCommandSettings(input));
  try {
    return await withInstallation(
      input,
      (installation) => runUntilStopped(input, installation, lock.folderId),
      openInstallation,
    );
  } finally {
    lock.release();
  }
}

async function runUntilStopped(input: Input, installation: Installation, folderId: string): Promise<number> {
  const configFile = input.text("config");
  const applied = configFile === undefined ? null : await applyFile(input, installation, configFile);
  if (applied === "rejected") return 1;
  if (applied === null) await createDemo(installation);
  const made = deliverKeys(applied?.shown ?? [], input, installation.settings);
  const settings = readServerSettings(input, applied?.file);
  const running = await listen(installation, { ...settings, folderId }).catch((error: unknown) => {
    // The keys are already valid and would otherwise never be shown.
    for (const line of createdKeys({ made, paint: input.terminal.paint })) input.terminal.print(line);
    throw error;
  });
  const serviceManager = new ServiceManager({
    environment: input.environment,
    onFailure: (reason) => input.terminal.printNote(`model-gateway: ${reason}.`),
  });
  const url = localUrl(settings.host, running.port);
  const publicUrl = isDerivedUrl(settings) || settings.publicUrl === url ? null : settings.publicUrl;
  const claimLink = await offerAdminClaim(installation, url, publicUrl);
  const demoKey = demoKeyFile(installation.settings);
  input.terminal.print(
    startupText({
      version: VERSION,
      hasConsole: existsSync(join(BUILT_DIR, "console", "index.html")),
      url,
      publicUrl,
      readyMs: Math.round(performance.now()),
      store: describeStore(installation.db, installation.settings.dataDir),
      ...running.counts,
      demoKeyFile: applied === null && existsSync(demoKey) ? demoKey : null,
      claim:
        claimLink === null
          ? null
          : {
              file: installation.settings.adminTokenFile,
              link: input.terminal.isInteractive ? claimLink : null,
            },
      made,
      data: dataFlag(installation.settings),
      paint: input.terminal.paint,
    }),
  );
  serviceManager.notifyReady(`Listening on ${url}`);
  await stopSignal();
  serviceManager.notifyStopping();
  input.terminal.print(stoppingText(settings.drainDelayMs));
  await running.stop();
  serviceManager.close();
  return 0;
}

function stoppingText(drainDelayMs: number): string {
  const delay =
    drainDelayMs === 0
      ? ""
      : `serving for ${durationText(drainDelayMs)} until load balancers have noticed, then `;
  return `Stopping: ${delay}waiting for requests in flight. Press Ctrl+C again to stop immediately.`;
}

function deliverKeys(
  keys: readonly CreatedKey[],
  input: Input,
  settings: Pick<Settings, "dataDir">,
): StartupFacts["made"] {
  const file = storeSecrets(chooseSecretTarget(input, settings, "keys"), keys);
  return file === null ? { kind: "shown", keys } : { kind: "kept", count: keys.length, file };
}

/** Commands need no `--data` for the default folder. */
function dataFlag({ dataDir }: Settings): string | undefined {
  return dataDir === resolve(defaultDataDir()) ? undefined : dataDir;
}

/** No public URL is configured, so it was derived from the listen address. */
function isDerivedUrl({ host, port, publicUrl }: Settings): boolean {
  return publicUrl === localUrl(host, port);
}

async function applyFile(
  input: Input,
  installation: Installation,
  fileName: string,
): Promise<{ file: GatewayFile; shown: readonly CreatedKey[] } | "rejected"> {
  const source = readConfigSource(fileName, input.environment);
  const result = await planChanges(installation, source, { prune: false });
  if (!result.ok) {
    printProblems(result.problems, input.terminal);
    return "rejected";
  }
  for (const note of result.plan.notes) input.terminal.printNote(`note: ${note}`);
  await applyChanges(installation, result.plan, {
    actor: { kind: "file", id: null, name: basename(fileName) },
    address: null,
  });
  return { file: result.plan.file, shown: result.plan.shown };
}

function readServerSettings(input: Input, file: GatewayFile | undefined): Settings {
  const result = readSettings({
    flags: { host: input.text("host"), port: input.text("port"), data: input.text("data") },
    environment: input.environment,
    ...(file === undefined
      ? {}
      : {
          file: file.server,
          fileTelemetry: file.telemetry,
          fileLog: file.log,
          fileCapture: file.capture,
        }),
  });
  return result.ok ? result.settings : misuse(result.problems.join("\n"), WRONG_SETTING);
}

async function listen(installation: Installation, settings: Settings & ServerSettings): Promise<Running> {
  try {
    return await startGateway(installation, settings);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code === "EADDRINUSE") {
      throw new Failure(
        `Port ${settings.port} on ${settings.host} is already in use.`,
        `Stop the other process, or choose another port: --port ${settings.port + 1}`,
        1,
      );
    }
    if (isForbiddenFile(error)) {
      throw new Failure(
        `No permission to read and write ${error.path} (${error.code}).`,
        `All files in ${settings.dataDir} must belong to the user who runs the server. Check whether root has run it.`,
        1,
      );
    }
    if (error instanceof Error && error.message.startsWith("Failed to listen")) {
      throw new Failure(
        `Cannot listen on port ${settings.port} of ${settings.host}${typeof code === "string" ? ` (${code})` : ""}.`,
        "Choose an address of this machine with --host. Ports below 1024 require root or CAP_NET_BIND_SERVICE.",
        1,
      );
    }
    throw error;
  }
}

function isForbiddenFile(error: unknown): error is Error & { code: string; path: string } {
  if (!(error instanceof Error && "code" in error && "path" in error)) return false;
  return (error.code === "EACCES" || error.code === "EPERM") && typeof error.path === "string";
}

/** Resolves at the first signal; a second one ends the process at once. */
function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    let isStopping = false;
    const stop = () => {
      if (isStopping) process.exit(1);
      isStopping = true;
      resolve();
    };
    process.on("SIGINT", stop);
    process.on("SIGTERM", stop);
    // A closed terminal sends SIGHUP more than once, which must not force an immediate exit.
    if (!isHangupIgnored()) process.on("SIGHUP", () => resolve());
  });
}

/** A process started with `nohup` should continue; a listener for the signal would undo that. */
function isHangupIgnored(): boolean {
  const status = "/proc/self/status";
  if (!existsSync(status)) return false;
  const lastDigit = /^SigIgn:.*([\da-f])$/m.exec(readFileSync(status, "utf8"))?.[1] ?? "0";
  return Number.parseInt(lastDigit, 16) % 2 === 1;
}
