/** Counts deliveries of the usage export, for `/metrics`. */

export class ExportCounts {
  delivered = 0;
  failed = 0;
  /** Requests in accepted batches. */
  rows = 0;
  readonly #lagSeconds = new Map<string, number>();

  setLag(webhook: string, seconds: number): void {
    this.#lagSeconds.set(webhook, seconds);
  }

  /** Removes webhooks that were deleted or disabled. */
  keepLags(webhooks: readonly string[]): void {
    for (const name of this.#lagSeconds.keys()) if (!webhooks.includes(name)) this.#lagSeconds.delete(name);
  }

  clearLags(): void {
    this.#lagSeconds.clear();
  }

  /** The age of the oldest entry that each webhook has not received. Empty on nodes that do not deliver. */
  lags(): readonly (readonly [webhook: string, seconds: number])[] {
    return [...this.#lagSeconds];
  }
}
