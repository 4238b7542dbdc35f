/** Runs a task one run at a time. Requests during a run share one further run. */

export class SerialTask {
  readonly #run: () => Promise<void>;
  #current: Promise<void> = Promise.resolve();
  /** The run that starts after the current one; null if none was requested. */
  #next: Promise<void> | null = null;
  #isStopped = false;

  /** `run` handles its own failures: its promise never rejects. */
  constructor(run: () => Promise<void>) {
    this.#run = run;
  }

  /** Resolves at the end of a run that started after this call. */
  request(): Promise<void> {
    this.#next ??= this.#current.then(() => this.#start());
    return this.#next;
  }

  #start(): Promise<void> {
    this.#next = null;
    if (!this.#isStopped) this.#current = this.#run();
    return this.#current;
  }

  /** No run starts after this call; resolves when none is active. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#next;
    await this.#current;
  }
}
