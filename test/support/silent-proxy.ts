/**
 * A TCP proxy that can go silent: connections stay open, and bytes that arrive on them are not forwarded. It can also
 * lose one response, move to another server, and be far away.
 */

import type { Socket } from "bun";

export interface ProxyTarget {
  hostname: string;
  port: number;
}

export interface SilentProxy {
  readonly port: number;
  /** Connections that were opened so far. */
  readonly opened: number;
  /** Silences the connections that are open now, and, until `pass`, those that are opened later. */
  silence(options?: { andLater: boolean }): void;
  /** Later connections work again. Silent ones stay silent. */
  pass(): void;
  /** The server gets the next bytes that contain this text, and the connection breaks instead of the response. */
  loseResponseTo(text: string): void;
  /** Whether that has happened. */
  readonly hasLostResponse: boolean;
  /** Closes all connections. Later ones go to this server. */
  moveTo(target: ProxyTarget): void;
  stop(): void;
}

/** Bytes on their way to a socket that does not accept them yet. */
class Outlet {
  readonly #delayMs: number;
  #socket: Pick<Socket<unknown>, "write"> | null = null;
  #waiting: Uint8Array[] = [];

  constructor(delayMs: number) {
    this.#delayMs = delayMs;
  }

  connect(socket: Pick<Socket<unknown>, "write">): void {
    this.#socket = socket;
    this.flush();
  }

  /** Copies the bytes: they are valid only during the event. */
  write(bytes: Uint8Array): void {
    const copy = Uint8Array.from(bytes);
    const add = () => {
      this.#waiting.push(copy);
      this.flush();
    };
    if (this.#delayMs === 0) add();
    else setTimeout(add, this.#delayMs);
  }

  flush(): void {
    for (let next = this.#waiting[0]; this.#socket !== null && next !== undefined; next = this.#waiting[0]) {
      const written = this.#socket.write(next);
      if (written < next.length) {
        if (written > 0) this.#waiting[0] = next.subarray(written);
        return;
      }
      this.#waiting.shift();
    }
  }
}

interface Link {
  readonly client: Socket<Link>;
  readonly toClient: Outlet;
  readonly toServer: Outlet;
  server: Socket<undefined> | null;
  isSilent: boolean;
  losesResponse: boolean;
}

/** `delayMs`: how long bytes take in each direction. */
export function startSilentProxy(firstTarget: ProxyTarget, { delayMs = 0 } = {}): SilentProxy {
  const links = new Set<Link>();
  let target = firstTarget;
  let opened = 0;
  let isSilent = false;
  let lostAfter: string | null = null;
  let hasLostResponse = false;
  const listener = Bun.listen<Link>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(client) {
        opened++;
        const link: Link = {
          client,
          toClient: new Outlet(delayMs),
          toServer: new Outlet(delayMs),
          server: null,
          isSilent,
          losesResponse: false,
        };
        link.toClient.connect(client);
        client.data = link;
        links.add(link);
        const onLostResponse = () => {
          hasLostResponse = true;
        };
        void connect(link, target, onLostResponse);
      },
      data({ data: link }, bytes) {
        if (lostAfter !== null && Buffer.from(bytes).includes(lostAfter)) {
          lostAfter = null;
          link.losesResponse = true;
        }
        if (!link.isSilent) link.toServer.write(bytes);
      },
      drain({ data: link }) {
        link.toClient.flush();
      },
      close(client) {
        links.delete(client.data);
        client.data.server?.end();
      },
    },
  });
  return {
    port: listener.port,
    get opened() {
      return opened;
    },
    silence({ andLater } = { andLater: false }) {
      for (const link of links) link.isSilent = true;
      isSilent = andLater;
    },
    pass() {
      isSilent = false;
    },
    loseResponseTo(text) {
      lostAfter = text;
      hasLostResponse = false;
    },
    get hasLostResponse() {
      return hasLostResponse;
    },
    moveTo(next) {
      target = next;
      for (const link of links) {
        link.server?.terminate();
        link.client.terminate();
      }
    },
    stop: () => listener.stop(true),
  };
}

async function connect(link: Link, target: ProxyTarget, onLostResponse: () => void): Promise<void> {
  await Bun.connect<undefined>({
    ...target,
    socket: {
      open(server) {
        link.server = server;
        link.toServer.connect(server);
      },
      data(_, bytes) {
        if (link.losesResponse) {
          onLostResponse();
          link.client.terminate();
        } else if (!link.isSilent) link.toClient.write(bytes);
      },
      drain() {
        link.toServer.flush();
      },
      close() {
        if (!link.isSilent) link.client.end();
      },
    },
  }).catch(() => link.client.end());
}
