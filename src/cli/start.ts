/** `model-gateway start`: apply the file if there is one, listen, say so, and leave in good order. */

import { existsSync } from "node:fs";
import { basename } from "node:path";
import { offerAdminClaim } from "../config/admin-claim.ts";
import { applyChanges, planChanges } from "../config/apply.ts";
import { demoKeyFile, furnishDemo } from "../config/demo.ts";
import { localUrl, readSettings, type Settings } from "../config/environment.ts";
import type { Installation } from "../config/installation.ts";
import type { GatewayFile } from "../config/schema.ts";
import { type Running, startGateway } from "../main.ts";
import { VERSION } from "../version.ts";
import { printProblems, readConfigFile } from "./apply.ts";
import { type Command, DATA_OPTION, Failure, fail, type Input } from "./command.ts";
import { startupText } from "./startup-text.ts";
import { withInstallation } from "./store-access.ts";

export const start: Command = {
  words: "start",
  summary: "Run the gateway",
  about: "Without --config an empty installation gets a demo group that a built-in simulator serves.",
  options: {
    config: { value: "FILE", about: "apply this configuration file before listening" },
    host: { value: "ADDRESS", about: "where to listen (HOST, 127.0.0.1)" },
    port: { value: "PORT", about: "where to listen (PORT, 8787)" },
    data: DATA_OPTION,
  },
  run: (input) => withInstallation(input, (installation) => runUntilStopped(input, installation)),
};

async function runUntilStopped(input: Input, installation: Installation): Promise<number> {
  const configFile = input.text("config");
  const applied = configFile === undefined ? null : await applyFile(input, installation, configFile);
  if (applied === "refused") return 1;
  if (applied === null) await furnishDemo(installation);
  const settings = settingsWith(input, applied?.file.server);
  const running = await listen(installation, settings);
  const url = localUrl(settings.host, running.port);
  const publicUrl = isMadeUp(settings) || settings.publicUrl === url ? null : settings.publicUrl;
  const claimLink = await offerAdminClaim(installation, url, publicUrl);
  const demoKey = demoKeyFile(installation.settings);
  input.terminal.print(
    startupText({
      version: VERSION,
      url,
      publicUrl,
      readyMs: Math.round(performance.now()),
      store:
        installation.db.engine === "sqlite" ? `SQLite in ${installation.settings.dataDir}` : "PostgreSQL",
      ...running.counts,
      demoKeyFile: applied === null && existsSync(demoKey) ? demoKey : null,
      claim:
        claimLink === null
          ? null
          : // What is not a terminal is a log, which others read and which is kept.
            { file: installation.settings.adminTokenFile, link: process.stdout.isTTY ? claimLink : null },
      shown: applied?.shown ?? [],
      paint: input.terminal.paint,
    }),
  );
  await stopSignal();
  input.terminal.print("Stopping: requests under way are finished first. Once more stops at once.");
  await running.stop();
  return 0;
}

/** Nobody named a public address, so it was made of where the settings say to listen. */
function isMadeUp({ host, port, publicUrl }: Settings): boolean {
  return publicUrl === localUrl(host, port);
}

async function applyFile(
  input: Input,
  installation: Installation,
  fileName: string,
): Promise<{ file: GatewayFile; shown: readonly { name: string; secret: string }[] } | "refused"> {
  const source = { text: readConfigFile(fileName), fileName, environment: input.environment };
  const result = await planChanges(installation, source, { prune: false });
  if (!result.ok) {
    printProblems(result.problems, input.terminal);
    return "refused";
  }
  await applyChanges(installation, result.plan, {
    actor: { kind: "file", id: null, name: basename(fileName) },
    address: null,
  });
  return { file: result.plan.file, shown: result.plan.shown };
}

function settingsWith(input: Input, server: GatewayFile["server"] | undefined): Settings {
  const result = readSettings({
    flags: { host: input.text("host"), port: input.text("port"), data: input.text("data") },
    environment: input.environment,
    ...(server === undefined ? {} : { file: server }),
  });
  return result.ok ? result.settings : fail(result.problems.join("\n"));
}

async function listen(installation: Installation, settings: Settings): Promise<Running> {
  try {
    return await startGateway(installation, settings);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code === "EADDRINUSE") {
      throw new Failure(
        `Port ${settings.port} on ${settings.host} is taken by another process.`,
        `Stop that one, or choose another port: --port ${settings.port + 1}`,
        1,
      );
    }
    throw error;
  }
}

/** Resolves at the first signal; a second one ends the process at once. */
function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    let asked = false;
    const stop = () => {
      if (asked) process.exit(1);
      asked = true;
      resolve();
    };
    process.on("SIGINT", stop);
    process.on("SIGTERM", stop);
  });
}
