/** Runs a task at intervals, one run at a time. */

interface PeriodicTaskOptions {
  readonly everyMs: number;
  run(): Promise<unknown>;
  /** A run has failed. The next one is tried as usual. */
  onError(reason: string): void;
}

export class PeriodicTask {
  readonly #options: PeriodicTaskOptions;
  readonly #timer: ReturnType<typeof setInterval>;
  #inFlight: Promise<void> | null = null;
  #isStopped = false;

  constructor(options: PeriodicTaskOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.run(), options.everyMs);
    // The task must not keep the process alive.
    this.#timer.unref();
  }

  /** A run that takes long should end early then. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Runs at once; joins a run in flight. */
  async run(): Promise<void> {
    if (this.#isStopped) return;
    this.#inFlight ??= this.#runOnce().finally(() => {
      this.#inFlight = null;
    });
    await this.#inFlight;
  }

  /** No run starts after this call; resolves when none is in flight. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await this.#inFlight;
  }

  async #runOnce(): Promise<void> {
    try {
      await this.#options.run();
    } catch (error) {
      this.#options.onError(error instanceof Error ? error.message : "unknown");
    }
  }
}
