/** Where nodes meet to move parts of a limit between them: one document that is read and replaced atomically. */

export interface CoordinatorDocument {
  /** Null if there is no document: the coordinator is new or has lost its state. */
  readonly text: string | null;
  /** Identifies this text. */
  readonly token: string;
  /** The clock of the coordinator. */
  readonly nowMs: number;
}

/** Both functions reject if the coordinator cannot be reached. */
export interface Coordinator {
  /** For operators: where the document is kept. */
  readonly kind: string;
  read(): Promise<CoordinatorDocument>;
  /** Replaces the document if it is still the one that was read. Returns false if another node was faster. */
  replace(read: CoordinatorDocument, text: string): Promise<boolean>;
  close(): Promise<void>;
}

/** For nodes within one process. */
export class MemoryCoordinator implements Coordinator {
  readonly kind = "memory";
  readonly #nowMs: () => number;
  #text: string | null = null;
  #version = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  async read(): Promise<CoordinatorDocument> {
    return { text: this.#text, token: String(this.#version), nowMs: this.#nowMs() };
  }

  async replace({ token }: CoordinatorDocument, text: string): Promise<boolean> {
    if (token !== String(this.#version)) return false;
    this.#text = text;
    this.#version += 1;
    return true;
  }

  /** As after a restart without a disk, or a failover to an older copy. */
  restore(text: string | null): void {
    this.#text = text;
    this.#version += 1;
  }

  async close(): Promise<void> {}
}
