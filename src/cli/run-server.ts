/**
 * Runs the server for `start`: applies the configuration file if there is one, starts the server, prints where it listens,
 * and shuts down in order. Several processes are run by `processes/run-supervisor.ts`, and each of them by this file.
 */

import { existsSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { systemClock } from "../base/clock.ts";
import { offerAdminClaim } from "../config/first-run/admin-claim.ts";
import { createDemo, demoKeyFile } from "../config/first-run/demo.ts";
import { defaultDataDir, localUrl, readSettings, type Settings } from "../config/installation/environment.ts";
import { type Installation, openInstallation } from "../config/installation/installation.ts";
import { limits } from "../config/limits/product-limits.ts";
import { parseFile } from "../config/parse/file.ts";
import { applyChanges, planChanges } from "../config/plan/apply.ts";
import { ConcurrentChangeError } from "../config/plan/concurrent-change.ts";
import { gatewayFile } from "../config/schema/schema.ts";
import { durationText } from "../config/schema/usage-limits.ts";
import { BUILT_DIR, type Running, type ServerSettings, startGateway } from "../main.ts";
import { openLog } from "../observe/log.ts";
import { describeStore } from "../store/engine/dialect.ts";
import { VERSION } from "../version.ts";
import { readConfigSource } from "./apply.ts";
import { printProblems } from "./apply-output.ts";
import { type Input, misuse } from "./command.ts";
import { lockDataFolder, waitForDataFolder } from "./folder-in-use.ts";
import { describeListenFailure } from "./listen-failure.ts";
import { countProcesses, thisMachine } from "./processes/count-processes.ts";
import { readRole } from "./processes/process-messages.ts";
import { recoverFolders } from "./processes/recover-folders.ts";
import { runSupervisor } from "./processes/run-supervisor.ts";
import { SupervisorLink } from "./processes/supervisor-link.ts";
import { chooseSecretTarget, storeSecrets } from "./secret-output.ts";
import { ServiceManager } from "./service-manager.ts";
import { type CreatedKey, createdKeys, type StartupFacts, startupText } from "./startup-text.ts";
import { onStopSignals } from "./stop-signals.ts";
import { readCommandSettings, WRONG_SETTING, withInstallation } from "./store-access.ts";

/** The sections of the file that are settings of the process. */
const fileSettings = gatewayFile.pick({ server: true, telemetry: true, log: true, capture: true }).loose();
type FileSettings = ReturnType<typeof fileSettings.parse>;

export async function runServer(input: Input): Promise<number> {
  // Validates the settings before anything is created.
  readServerSettings(input, undefined);
  const role = readRole(input.environment);
  if (role === "recover") return withLockedInstallation(input, recoverFolder);
  if (role !== null) {
    const link = new SupervisorLink(limits.processes.reportMs);
    const serve = role === "first" ? serveAsFirst : serveAsFurther;
    return withLockedInstallation(input, (server) => serve(server, link)).finally(() => link.close());
  }
  const settings = readServerSettings(input, peekFileSettings(input));
  const count = countProcesses(settings, thisMachine);
  if (count !== null) return runSupervisor(input, settings, count);
  const log = openLog(systemClock.nowMs, (line) => process.stderr.write(line));
  await recoverFolders(settings, { count: 0, log });
  return withLockedInstallation(input, serveAlone);
}

interface ServerInput {
  readonly input: Input;
  readonly installation: Installation;
  readonly folderId: string;
}

async function withLockedInstallation(
  input: Input,
  work: (server: ServerInput) => Promise<number>,
): Promise<number> {
  const settings = readCommandSettings(input);
  // Before the store is opened: a second server of a newer version must not migrate the schema of the first one.
  const lock =
    readRole(input.environment) === null
      ? lockDataFolder(settings)
      : await waitForDataFolder(settings, limits.drainTimeoutMs);
  const { folderId } = lock;
  try {
    return await withInstallation(
      input,
      (installation) => work({ input, installation, folderId }),
      openInstallation,
    );
  } finally {
    lock.release();
  }
}

async function serveAlone(server: ServerInput): Promise<number> {
  const { input } = server;
  const serviceManager = new ServiceManager({
    environment: input.environment,
    onFailure: (reason) => input.terminal.printNote(`model-gateway: ${reason}.`),
  });
  const started = await startFirst(server);
  if (started === "rejected") return 1;
  const { running, settings, url } = started;
  // A program that waits for the text may send a signal at once.
  const stopping = stopSignal(input);
  input.terminal.print(started.text);
  serviceManager.notifyReady(`Listening on ${url}`);
  await stopping;
  serviceManager.notifyStopping();
  input.terminal.print(stoppingText(settings.drainDelayMs));
  await running.stop();
  serviceManager.close();
  return 0;
}

async function serveAsFirst(server: ServerInput, link: SupervisorLink): Promise<number> {
  const started = await startFirst(server);
  if (started === "rejected") return 1;
  server.input.terminal.print(started.text);
  return serveSupervised(started.running, link);
}

/** Starts a process beside others that serve already: the file was applied. */
async function serveAsFurther(server: ServerInput, link: SupervisorLink): Promise<number> {
  const { input, installation, folderId } = server;
  const file = readFileSettings(input);
  if (file === "rejected") return 1;
  const running = await listen(installation, { ...readServerSettings(input, file), folderId });
  return serveSupervised(running, link);
}

async function serveSupervised(running: Running, link: SupervisorLink): Promise<number> {
  link.reportReady();
  const command = await link.command;
  await (command === "replace" ? running.stop(0) : running.stop());
  return 0;
}

/** A start settles what an earlier process left in the folder. */
async function recoverFolder({ input, installation, folderId }: ServerInput): Promise<number> {
  const running = await listen(installation, { ...readServerSettings(input, undefined), folderId });
  await running.stop(0);
  return 0;
}

interface StartedServer {
  readonly running: Running;
  readonly settings: Settings;
  readonly url: string;
  /** What an operator must know. */
  readonly text: string;
}

/** Applies the file and starts the server. */
async function startFirst({
  input,
  installation,
  folderId,
}: ServerInput): Promise<StartedServer | "rejected"> {
  const configFile = input.text("config");
  const applied = configFile === undefined ? null : await applyFile(input, installation, configFile);
  if (applied === "rejected") return "rejected";
  if (applied === null) await createDemo(installation);
  const made = deliverKeys(applied?.shown ?? [], input, installation.settings);
  const settings = readServerSettings(input, applied?.file);
  const running = await listen(installation, { ...settings, folderId }).catch((error: unknown) => {
    // The keys are already valid and would otherwise never be shown.
    for (const line of createdKeys({ made, paint: input.terminal.paint })) input.terminal.print(line);
    throw error;
  });
  const url = localUrl(settings.host, running.port);
  const publicUrl = isDerivedUrl(settings) || settings.publicUrl === url ? null : settings.publicUrl;
  const claimLink = await offerAdminClaim(installation, url, publicUrl);
  const demoKey = demoKeyFile(installation.settings);
  const text = startupText({
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
  });
  return { running, settings, url, text };
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

/** Nodes that start together apply the same file, and each but the first may be overtaken by every other. */
const APPLY_TRIES_MAX = 20;

async function applyFile(
  input: Input,
  installation: Installation,
  fileName: string,
): Promise<{ file: FileSettings; shown: readonly CreatedKey[] } | "rejected"> {
  const source = readConfigSource(fileName, input.environment);
  const actor = { kind: "file", id: null, name: basename(fileName) } as const;
  for (let tries = 1; ; tries += 1) {
    const result = await planChanges(installation, source, { prune: false });
    if (!result.ok) {
      printProblems(result.problems, input.terminal);
      return "rejected";
    }
    const { plan } = result;
    try {
      await applyChanges(installation, plan, { actor, address: null });
    } catch (error) {
      if (error instanceof ConcurrentChangeError && tries < APPLY_TRIES_MAX) continue;
      throw error;
    }
    for (const note of plan.notes) input.terminal.printNote(`note: ${note}`);
    return { file: plan.file, shown: plan.shown };
  }
}

/** Reads the settings of the process from the file, without applying it. Undefined if there is no file. */
function readFileSettings(input: Input): FileSettings | undefined | "rejected" {
  const source = openConfigSource(input);
  if (source === null) return undefined;
  const result = parseFile(source.text, source, fileSettings);
  if (result.ok) return result.file;
  printProblems(result.problems, input.terminal);
  return "rejected";
}

/** Only for the number of processes: a large file takes long to parse. The start reports what is wrong with it. */
function peekFileSettings(input: Input): FileSettings | undefined {
  const source = openConfigSource(input);
  if (source === null || !/\bprocesses\b/.test(source.text)) return undefined;
  const result = parseFile(source.text, source, fileSettings);
  return result.ok ? result.file : undefined;
}

function openConfigSource(input: Input): ReturnType<typeof readConfigSource> | null {
  const fileName = input.text("config");
  return fileName === undefined ? null : readConfigSource(fileName, input.environment);
}

function readServerSettings(input: Input, file: FileSettings | undefined): Settings {
  const result = readSettings({
    flags: {
      host: input.text("host"),
      port: input.text("port"),
      data: input.text("data"),
      processes: input.text("processes"),
    },
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
    throw describeListenFailure(error, settings);
  }
}

/** Resolves at the first signal; a second one ends the process at once. */
function stopSignal({ terminal }: Input): Promise<void> {
  process.on("SIGUSR2", () =>
    terminal.printNote(
      "model-gateway: SIGUSR2 replaces processes only with --processes. Restart the server instead.",
    ),
  );
  return new Promise((resolve) => onStopSignals(resolve, () => process.exit(1)));
}
