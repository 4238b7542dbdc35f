/** How this process is reached. With port 0, its URL and port are known only once the server listens. */

import { hostname } from "node:os";
import type { ServerSettings } from "./process-context.ts";

export class NodeAddress {
  readonly #settings: Pick<ServerSettings, "port" | "publicUrl">;
  #listening: { readonly url: string; readonly port: number } | null = null;

  constructor(settings: Pick<ServerSettings, "port" | "publicUrl">) {
    this.#settings = settings;
  }

  /** The URL for clients, without a trailing slash. */
  get publicUrl(): string {
    return this.#settings.port === 0 ? this.#server.url : this.#settings.publicUrl;
  }

  /** Identifies this process among the nodes of an installation. */
  get node(): string {
    return `${hostname()}:${this.#server.port}`;
  }

  setServer(server: { readonly url: string; readonly port: number }): void {
    this.#listening = server;
  }

  get #server(): { readonly url: string; readonly port: number } {
    if (this.#listening === null) throw new Error("the address was read before the server listens");
    return this.#listening;
  }
}
