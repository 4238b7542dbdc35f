/** Another process changed the installation between the plan of a change and its transaction. */

export class ConcurrentChangeError extends Error {
  override readonly name = "ChangedMeanwhile";

  constructor() {
    super("The installation was changed by another process in the meantime. No changes were written.");
  }
}
