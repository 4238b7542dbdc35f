/** The product as a user runs it: `bin/model-gateway` in a new folder, with its output recorded. */

import { join, resolve } from "node:path";
import { eventually } from "./eventually.ts";

const PROGRAM = resolve(import.meta.dir, "../..");
const READY_WITHIN_MS = 90_000;

export interface GatewayProcess {
  pid: number;
  /** Without `/v1`. */
  url: string;
  /** Everything printed so far, on both outputs. */
  output(): string;
  signal(name: "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGUSR2"): void;
  exited: Promise<number>;
  /** Ends the process if it is running; returns its exit code. */
  stop(): Promise<number>;
}

export interface CommandOptions {
  folder: string;
  args?: readonly string[];
  env?: Readonly<Record<string, string>>;
  /** The root folder of another version of the program. */
  program?: string;
  /** A command that executes the program in its place, for example under another host name. */
  wrapper?: readonly string[];
}

/** Resolves when it reports that it is ready; rejects with its output if it ends before. */
export async function startGatewayProcess(options: CommandOptions): Promise<GatewayProcess> {
  const child = spawn(["start", ...(options.args ?? [])], { ...options, env: { PORT: "0", ...options.env } });
  const output = collectOutput(child.stdout, child.stderr);
  const exited = child.exited;
  const ready = /API +(http:\/\/\S+)\/v1/;
  const hasEnded = () => ready.test(output.text()) || child.exitCode !== null;
  const ended = await eventually(hasEnded, READY_WITHIN_MS).catch((error: Error) => error);
  if (!ready.test(output.text())) {
    child.kill("SIGKILL");
    await output.ended;
    throw new Error(`the gateway did not start:\n${output.text()}`, { cause: ended });
  }
  return {
    pid: child.pid,
    url: ready.exec(output.text())?.[1] ?? "",
    output: output.text,
    signal: (name) => child.kill(name),
    exited,
    async stop() {
      if (child.exitCode === null) child.kill("SIGTERM");
      // A process that hangs is ended; its exit code shows it.
      const killTimer = setTimeout(() => child.kill("SIGKILL"), 10_000);
      const code = await exited;
      clearTimeout(killTimer);
      await output.ended;
      return code;
    },
  };
}

export interface Run {
  code: number;
  output: string;
}

/** One command, from start to end. */
export async function runCommand(
  args: readonly string[],
  options: Omit<CommandOptions, "args"> & { stdin?: string },
): Promise<Run> {
  const child = spawn(args, options);
  const output = collectOutput(child.stdout, child.stderr);
  child.stdin.write(options.stdin ?? "");
  child.stdin.end();
  const code = await child.exited;
  await output.ended;
  return { code, output: output.text() };
}

function spawn(args: readonly string[], { folder, env, program = PROGRAM, wrapper = [] }: CommandOptions) {
  return Bun.spawn([...wrapper, join(program, "bin/model-gateway"), ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "", ...env },
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
}

function collectOutput(...streams: ReadableStream<Uint8Array>[]): { text(): string; ended: Promise<void> } {
  let text = "";
  const read = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) text += decoder.decode(chunk, { stream: true });
  };
  return { text: () => text, ended: Promise.all(streams.map(read)).then(() => {}) };
}
