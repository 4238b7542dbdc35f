/**
 * A load balancer as installations have one: it checks `/readyz` of each node and gives new connections to the nodes
 * that are ready, in turn. Connections that are open stay where they are.
 */

import type { Socket } from "bun";
import { eventually } from "./eventually.ts";

const CHECK_INTERVAL_MS = 50;
const READY_WITHIN_MS = 120_000;

interface Peer {
  other: Socket<Peer> | null;
  /** Bytes that wait for the other side: for its connection, or for its reader. */
  waiting: Uint8Array[];
  isEnding: boolean;
}

export interface LoadBalancer {
  readonly url: string;
  /** Resolves when the node receives connections. */
  add(nodeUrl: string): Promise<void>;
  /** Call it when the node has ended. */
  remove(nodeUrl: string): void;
  stop(): void;
}

export function startLoadBalancer(): LoadBalancer {
  const ready = new Map<string, boolean>();
  let turn = 0;

  function chooseNode(): URL | null {
    const nodes = [...ready].filter(([, isReady]) => isReady);
    turn += 1;
    const node = nodes[turn % nodes.length];
    return node === undefined ? null : new URL(node[0]);
  }

  async function check(url: string): Promise<void> {
    const response = await fetch(`${url}/readyz`, { keepalive: false }).catch(() => null);
    if (ready.has(url)) ready.set(url, response?.status === 200);
  }

  const timer = setInterval(() => {
    for (const url of ready.keys()) void check(url);
  }, CHECK_INTERVAL_MS);

  const listener = Bun.listen<Peer>({
    hostname: "127.0.0.1",
    port: 0,
    data: newPeer(null),
    socket: {
      open(client) {
        client.data = newPeer(null);
        const node = chooseNode();
        if (node === null) client.end();
        else void connect(client, node);
      },
      ...relay,
    },
  });

  return {
    url: `http://127.0.0.1:${listener.port}`,
    async add(url) {
      ready.set(url, false);
      await eventually(async () => {
        await check(url);
        return ready.get(url);
      }, READY_WITHIN_MS);
    },
    remove: (url) => void ready.delete(url),
    stop() {
      clearInterval(timer);
      listener.stop(true);
    },
  };
}

function newPeer(other: Socket<Peer> | null): Peer {
  return { other, waiting: [], isEnding: false };
}

async function connect(client: Socket<Peer>, node: URL): Promise<void> {
  try {
    client.data.other = await Bun.connect<Peer>({
      hostname: node.hostname,
      port: Number(node.port),
      data: newPeer(client),
      socket: relay,
    });
    flush(client);
  } catch {
    client.end();
  }
}

/** Both directions. What `from` received is in `from.data.waiting` until the other side takes it. */
const relay = {
  data(from: Socket<Peer>, bytes: Uint8Array) {
    from.data.waiting.push(Uint8Array.from(bytes));
    flush(from);
  },
  drain(to: Socket<Peer>) {
    if (to.data.other !== null) flush(to.data.other);
  },
  end(from: Socket<Peer>) {
    from.data.isEnding = true;
    flush(from);
  },
  close(from: Socket<Peer>) {
    from.data.isEnding = true;
    flush(from);
  },
  error() {},
};

function flush(from: Socket<Peer>): void {
  const { other, waiting, isEnding } = from.data;
  if (other === null) return;
  for (let bytes = waiting.shift(); bytes !== undefined; bytes = waiting.shift()) {
    const written = Math.max(0, other.write(bytes));
    if (written === bytes.length) continue;
    waiting.unshift(bytes.subarray(written));
    return;
  }
  if (isEnding) other.end();
}
