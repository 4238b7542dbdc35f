/** Closes the services of a process in the reverse order of their opening, so that no service outlives one it uses. */

type CloseService = () => void | Promise<void>;

export class CloseStack {
  readonly #closers: CloseService[] = [];

  /** Call it where the service is opened. */
  add(close: CloseService): void {
    this.#closers.push(close);
  }

  /** Closes all services, even when one of them fails to close. Then it throws the first error. */
  async closeAll(): Promise<void> {
    const errors: unknown[] = [];
    for (let close = this.#closers.pop(); close !== undefined; close = this.#closers.pop()) {
      try {
        await close();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}
