/** Runs a pass over the database one at a time. Requests during a pass share one further pass. */

type PassState = "idle" | "running" | "running_again" | "stopped";

export class SerialPass {
  readonly #run: () => Promise<void>;
  readonly #onFailure: (error: unknown) => void;
  #state: PassState = "idle";
  #current: Promise<void> = Promise.resolve();

  constructor(run: () => Promise<void>, onFailure: (error: unknown) => void) {
    this.#run = run;
    this.#onFailure = onFailure;
  }

  request(): void {
    if (this.#state === "running") this.#state = "running_again";
    if (this.#state !== "idle") return;
    this.#state = "running";
    this.#current = this.#runAll();
  }

  /** No pass starts after this call; resolves when none runs. */
  async stop(): Promise<void> {
    const running = this.#current;
    this.#state = "stopped";
    await running;
  }

  async #runAll(): Promise<void> {
    let isRequested = true;
    while (isRequested) {
      await this.#run().catch(this.#onFailure);
      isRequested = this.#state === "running_again";
      if (isRequested) this.#state = "running";
    }
    if (this.#state === "running") this.#state = "idle";
  }
}
