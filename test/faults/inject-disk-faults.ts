/** Faults of the disk, injected into the system calls of a running process by strace. */

import { eventually } from "../support/eventually.ts";

export interface Injection {
  /** Of the store and its log, or of any file of the process. */
  paths: readonly string[];
  /** As strace takes it: `pwrite64:error=ENOSPC`. */
  inject: string;
}

const ATTACH_WITHIN_MS = 10_000;

/** Every thread of the process is traced until the work has ended. Returns how many calls were changed. */
export async function whileInjecting(
  pid: number,
  { paths, inject }: Injection,
  work: () => Promise<void>,
): Promise<number> {
  const [call = ""] = inject.split(":");
  const strace = Bun.spawn(
    [
      "strace",
      ...["-f", "-p", String(pid), ...paths.flatMap((path) => ["-P", path])],
      ...["-e", `trace=${call}`, "-e", `inject=${inject}`],
    ],
    { stdout: "ignore", stderr: "pipe" },
  );
  let said = "";
  const decoder = new TextDecoder();
  const reading = (async () => {
    for await (const chunk of strace.stderr) said += decoder.decode(chunk, { stream: true });
  })();
  await eventually(() => {
    if (strace.exitCode !== null) throw new Error(`strace: ${said}`);
    return said.includes("attached");
  }, ATTACH_WITHIN_MS);
  try {
    await work();
  } finally {
    // Detaches, and lets the process continue.
    strace.kill("SIGINT");
    await strace.exited;
    await reading;
  }
  return said.split("(INJECTED)").length + said.split("(DELAYED)").length - 2;
}
