/** A TCP proxy that can go silent: connections stay open, and nothing that arrives on them is passed on. */

import type { Socket } from "bun";

export interface SilentProxy {
  readonly port: number;
  /** Connections that were opened so far. */
  readonly opened: number;
  /** Silences the connections that are open now, and, until `pass`, those that are opened later. */
  silence(options?: { andLater: boolean }): void;
  /** Later connections work again. Silent ones stay silent. */
  pass(): void;
  stop(): void;
}

interface Link {
  upstream: Socket<undefined> | null;
  early: Uint8Array[];
  isSilent: boolean;
}

export function startSilentProxy(target: { hostname: string; port: number }): SilentProxy {
  const links = new Set<Link>();
  let opened = 0;
  let isSilent = false;
  const listener = Bun.listen<Link>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(client) {
        opened++;
        const link: Link = { upstream: null, early: [], isSilent };
        client.data = link;
        links.add(link);
        void connect(client, link, target);
      },
      data(client, bytes) {
        const { data: link } = client;
        if (link.isSilent) return;
        if (link.upstream === null) link.early.push(Uint8Array.from(bytes));
        else link.upstream.write(bytes);
      },
      close(client) {
        links.delete(client.data);
        client.data.upstream?.end();
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
    stop: () => listener.stop(true),
  };
}

async function connect(
  client: Socket<Link>,
  link: Link,
  target: { hostname: string; port: number },
): Promise<void> {
  await Bun.connect<undefined>({
    ...target,
    socket: {
      open(upstream) {
        link.upstream = upstream;
        for (const bytes of link.early.splice(0)) upstream.write(bytes);
      },
      data(_, bytes) {
        if (!link.isSilent) client.write(bytes);
      },
      close() {
        if (!link.isSilent) client.end();
      },
    },
  }).catch(() => client.end());
}
