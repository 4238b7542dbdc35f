/** How this process is reached. With port 0, its URL and port are known only once the server listens. */

import { hostname } from "node:os";
import type { ServerSettings } from "./process-context.ts";

export class NodeAddress {
  readonly #settings: Pick<ServerSettings, "port" | "publicUrl" | "process">;
  #listening: { readonly url: string; readonly port: number } | null = null;

  constructor(settings: Pick<ServerSettings, "port" | "publicUrl" | "process">) {
    this.#settings = settings;
  }

  /** The URL for clients, without a trailing slash. */
  get publicUrl(): string {
    return this.#settings.port === 0 ? this.#server.url : this.#settings.publicUrl;
  }

  /** Identifies this process among the nodes of an installation. */
  get node(): string {
    const { process } = this.#settings;
    const address = `${hostname()}:${this.#server.port}`;
    return process === null ? address : `${address}/${process.number}`;
  }

  setServer(server: { readonly url: string; readonly port: number }): void {
    this.#listening = server;
  }

  get #server(): { readonly url: string; readonly port: number } {
    if (this.#listening === null) throw new Error("the address was read before the server listens");
    return this.#listening;
  }
}
