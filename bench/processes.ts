/** Starts, pins and always ends the processes of the bench. */

import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface BenchProcess {
  readonly name: string;
  readonly pid: number;
  readonly startedMs: number;
  /** Its output so far, for the error if it does not start. */
  output(): string;
  stop(): Promise<void>;
}

export interface StartOptions {
  name: string;
  command: string[];
  /** Left out: any core. */
  core?: number | undefined;
  env?: Record<string, string>;
}

export interface ProcessGroup {
  /** A temporary folder, gone when the stage closes. */
  readonly dir: string;
  start(options: StartOptions): BenchProcess;
  /** Ends a process that was started elsewhere, with the others. */
  track(child: Bun.Subprocess): void;
  /** Runs to its end; returns what it printed. */
  runToEnd(options: StartOptions & { input?: string; interruptAfterMs?: number }): Promise<string>;
  close(): void;
}

const STOP_GRACE_MS = 3_000;

function pinCommand(core: number | undefined, command: string[]): string[] {
  return core === undefined ? command : ["taskset", "-c", String(core), ...command];
}

export function openProcessGroup(): ProcessGroup {
  const dir = mkdtempSync(join(tmpdir(), "model-gateway-bench-"));
  const running = new Set<Bun.Subprocess>();
  let logs = 0;

  function track(child: Bun.Subprocess): void {
    running.add(child);
    void child.exited.then(() => running.delete(child));
  }

  function start({ name, command, core, env = {} }: StartOptions): BenchProcess {
    const log = join(dir, `${name}-${++logs}.log`);
    const startedMs = performance.now();
    const child = Bun.spawn(pinCommand(core, command), {
      stdin: "ignore",
      stdout: Bun.file(log),
      stderr: Bun.file(log),
      env: { ...process.env, ...env },
    });
    track(child);
    return {
      name,
      pid: child.pid,
      startedMs,
      output: () => (existsSync(log) ? readFileSync(log, "utf8") : ""),
      async stop() {
        child.kill("SIGTERM");
        const late = setTimeout(() => child.kill("SIGKILL"), STOP_GRACE_MS);
        await child.exited;
        clearTimeout(late);
      },
    };
  }

  async function runToEnd(
    options: StartOptions & { input?: string; interruptAfterMs?: number },
  ): Promise<string> {
    const { name, command, core, env = {}, input = "", interruptAfterMs } = options;
    const child = Bun.spawn(pinCommand(core, command), {
      stdin: Buffer.from(input),
      stdout: "pipe",
      stderr: "pipe",
      env: { ...process.env, ...env },
    });
    track(child);
    const interrupt =
      interruptAfterMs === undefined ? null : setTimeout(() => child.kill("SIGINT"), interruptAfterMs);
    const [printed, errors] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    const code = await child.exited;
    if (interrupt !== null) clearTimeout(interrupt);
    if (code !== 0) throw new Error(`${name} ended with ${code}:\n${printed}${errors}`);
    return printed;
  }

  /** Does not wait: it also runs when the bench itself is being ended. */
  function close(): void {
    for (const child of running) child.kill("SIGTERM");
    // nginx ends its worker itself, given a moment; a draining gateway must not outlive the bench.
    if (running.size > 0) Bun.sleepSync(300);
    for (const child of running) child.kill("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  }

  return { dir, start, track, runToEnd, close };
}

export function freePort(): number {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}

/** How long it took from the start of the process until `url` returned 200. */
export async function readyAfterMs(running: BenchProcess, url: string, timeoutMs: number): Promise<number> {
  for (;;) {
    const responded = await fetch(url, { signal: AbortSignal.timeout(1_000) }).then(
      async (response) => {
        await response.arrayBuffer();
        return response.status === 200;
      },
      () => false,
    );
    const tookMs = performance.now() - running.startedMs;
    if (responded) return tookMs;
    if (tookMs > timeoutMs || !existsSync(`/proc/${running.pid}`)) {
      throw new Error(`${running.name} did not become ready at ${url}. Its output:\n${running.output()}`);
    }
    await Bun.sleep(2);
  }
}

export interface Tools {
  wrk: string;
  nginx: string;
}

export function findOrInstallTools(): Tools {
  // nginx stands in /usr/sbin on Debian, which is not on every user's PATH.
  const path = `${process.env.PATH ?? ""}:/usr/sbin:/usr/local/sbin`;
  const find = (name: string) => Bun.which(name, { PATH: path });
  const missing = ["wrk", "nginx"].filter((name) => find(name) === null);
  if (missing.length > 0) {
    const packages = missing.map((name) => (name === "nginx" ? "nginx-light" : name));
    if (process.getuid?.() !== 0 || find("apt-get") === null) {
      throw new Error(
        `The bench needs ${missing.join(" and ")}. Install: sudo apt-get install ${packages.join(" ")}`,
      );
    }
    console.error(`installing ${packages.join(" ")} …`);
    // RUNLEVEL=1 keeps Debian from starting the nginx service that it installs.
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
    Bun.spawnSync(["apt-get", "update", "-qq"], { env });
    Bun.spawnSync(["apt-get", "install", "-y", "-qq", "--no-install-recommends", ...packages], { env });
  }
  const wrk = find("wrk");
  const nginx = find("nginx");
  if (wrk === null || nginx === null) throw new Error("wrk and nginx could not be installed by apt-get.");
  if (find("taskset") === null) throw new Error("The bench needs taskset (package util-linux).");
  return { wrk, nginx };
}
