/** Runs the supervisor for `start` with several processes: its signals, its service manager and its port. */

import { systemClock } from "../../base/clock.ts";
import { localUrl, type Settings } from "../../config/installation/environment.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { openLog } from "../../observe/log.ts";
import type { Input } from "../command.ts";
import { lockDataFolder } from "../folder-in-use.ts";
import { describeListenFailure } from "../listen-failure.ts";
import { ServiceManager } from "../service-manager.ts";
import { onStopSignals } from "../stop-signals.ts";
import { buildEnvironment, PROGRAM_COMMAND } from "./program.ts";
import { recoverFolders } from "./recover-folders.ts";
import type { SpawnProcess } from "./supervised-process.ts";
import { Supervisor } from "./supervisor.ts";

export async function runSupervisor(input: Input, settings: Settings, count: number): Promise<number> {
  const log = openLog(systemClock.nowMs, (line) => process.stderr.write(line), { process: "supervisor" });
  await recoverFolders(settings, { count, log });
  const lock = lockDataFolder(settings);
  const serviceManager = new ServiceManager({
    environment: input.environment,
    onFailure: (reason) => input.terminal.printNote(`model-gateway: ${reason}.`),
  });
  try {
    const port = findPort(settings);
    const supervisor = new Supervisor({
      count,
      spawn: spawnWith(buildArguments(input, port), count),
      log,
      limits: limits.processes,
      monotonicMs: systemClock.monotonicMs,
      onReady: () =>
        serviceManager.notifyReady(`${count} processes listen on ${localUrl(settings.host, port)}`),
      onReplacing: () => serviceManager.notifyReloading(),
    });
    onStopSignals(
      () => {
        serviceManager.notifyStopping();
        supervisor.stop();
      },
      () => supervisor.kill(),
    );
    process.on("SIGUSR2", () => supervisor.replaceAll());
    return await supervisor.run();
  } finally {
    serviceManager.close();
    lock.release();
  }
}

/**
 * Checks that no other program listens on the port, which the processes could not notice because they share it. With
 * port 0 it chooses the one that they share.
 */
function findPort(settings: Settings): number {
  try {
    const probe = Bun.listen({ hostname: settings.host, port: settings.port, socket: { data() {} } });
    probe.stop(true);
    return probe.port;
  } catch (error) {
    throw describeListenFailure(error, settings);
  }
}

function buildArguments(input: Input, port: number): string[] {
  const options = ["config", "host", "data"].flatMap((name) => {
    const value = input.text(name);
    return value === undefined ? [] : [`--${name}`, value];
  });
  return ["start", ...options, "--port", String(port)];
}

const spawnWith =
  (args: readonly string[], count: number): SpawnProcess =>
  (number, role, { onReport, onEnd }) => {
    const child = Bun.spawn([...PROGRAM_COMMAND, ...args], {
      env: buildEnvironment(role, `${number}/${count}`),
      stdio: ["ignore", "inherit", "inherit"],
      ipc(message) {
        if (message === "ready" || message === "alive") onReport(message);
      },
      onExit: (_, code, signal) => onEnd({ code, signal: signal === null ? null : String(signal) }),
    });
    return {
      pid: child.pid,
      send: (command) => child.send(command),
      kill: (signal) => child.kill(signal),
    };
  };
