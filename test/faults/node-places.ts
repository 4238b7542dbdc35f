/** PostgreSQL of several nodes, and the way of each node to it: a proxy, or an interface of its own network namespace. */

import { PostgresServer, type PostgresSettings } from "../support/postgres-server.ts";
import { type SilentProxy, startSilentProxy } from "../support/silent-proxy.ts";
import type { NodeNetwork } from "./node-network.ts";

/** The way of one node to the database. */
export interface DatabaseLink {
  /** From here on nothing passes, and no connection is reset. */
  cut(): void;
  restore(): void;
}

export interface NodePlace {
  environment: Readonly<Record<string, string>>;
  /** Executes the program in the network namespace of the node. */
  wrapper: readonly string[];
  databaseLink: DatabaseLink;
}

export async function startDatabase(
  settings: PostgresSettings,
  network: NodeNetwork | null,
): Promise<PostgresServer> {
  if (network === null) {
    const server = await PostgresServer.create(() => settings);
    await server.run("CREATE DATABASE gateway");
    return server;
  }
  const addresses = `127.0.0.1,${network.databaseHost}`;
  const server = await PostgresServer.create(() => ({ ...settings, listen_addresses: addresses }));
  const subnets = ["127.0.0.1/32", network.databaseSubnet];
  server.writeFile("pg_hba.conf", subnets.map((subnet) => `host all all ${subnet} trust\n`).join(""));
  await server.run("SELECT pg_reload_conf()");
  await server.run("CREATE DATABASE gateway");
  return server;
}

export function openProxy(server: PostgresServer, proxies: SilentProxy[]): NodePlace {
  const proxy = startSilentProxy({ hostname: "127.0.0.1", port: server.port });
  proxies.push(proxy);
  return {
    environment: { DATABASE_URL: `postgres://postgres@127.0.0.1:${proxy.port}/gateway` },
    wrapper: [],
    databaseLink: {
      cut: () => proxy.silence({ andLater: true }),
      restore: () => proxy.pass(),
    },
  };
}

export function useNamespace(server: PostgresServer, network: NodeNetwork, node: number): NodePlace {
  const { wrapper, host } = network.nodeAddress(node);
  return {
    environment: {
      DATABASE_URL: `postgres://postgres@${network.databaseHost}:${server.port}/gateway`,
      HOST: host,
    },
    wrapper,
    databaseLink: {
      cut: () => network.cutDatabase(node),
      restore: () => network.restoreDatabase(node),
    },
  };
}
