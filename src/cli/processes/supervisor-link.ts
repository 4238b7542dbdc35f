/** The connection of a process to its supervisor: reports that the process is ready and alive, and receives commands. */

import type { ProcessCommand, ProcessReport } from "./process-messages.ts";

export class SupervisorLink {
  readonly #command = Promise.withResolvers<ProcessCommand>();
  readonly #reportTimer: ReturnType<typeof setInterval>;
  #isServing = false;

  constructor(reportMs: number) {
    process.on("message", (message) => {
      if (message === "stop" || message === "replace") this.#command.resolve(message);
    });
    process.on("disconnect", () => this.#onSupervisorEnd());
    // Meant for the supervisor, if all processes of the program get it.
    process.on("SIGUSR2", () => {});
    if (process.connected !== true) this.#onSupervisorEnd();
    this.#reportTimer = setInterval(() => this.#report("alive"), reportMs);
    this.#reportTimer.unref();
  }

  /** Resolves when the process shall finish its requests and end. */
  get command(): Promise<ProcessCommand> {
    return this.#command.promise;
  }

  /** From now on signals make the process finish its requests. A second one changes nothing. */
  reportReady(): void {
    this.#isServing = true;
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const)
      process.on(signal, () => this.#command.resolve("stop"));
    this.#report("ready");
  }

  /** Otherwise the channel would keep the process alive. */
  close(): void {
    clearInterval(this.#reportTimer);
    if (process.connected === true) process.disconnect?.();
  }

  /** A new supervisor may start its processes at any moment. */
  #onSupervisorEnd(): void {
    if (!this.#isServing) process.exit(1);
    this.#command.resolve("replace");
  }

  #report(report: ProcessReport): void {
    if (process.connected === true) process.send?.(report);
  }
}
