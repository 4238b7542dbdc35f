/**
 * An asynchronous standby of a PostgreSQL server, which stops receiving commits before the server dies: a failover that
 * loses the last of them.
 */

import { eventually } from "./eventually.ts";
import { PostgresServer } from "./postgres-server.ts";
import { type SilentProxy, startSilentProxy } from "./silent-proxy.ts";

const REPLICATION_WITHIN_MS = 60_000;

export class Standby {
  readonly server: PostgresServer;
  readonly #primary: PostgresServer;
  readonly #replication: SilentProxy;

  private constructor(primary: PostgresServer, server: PostgresServer, replication: SilentProxy) {
    this.#primary = primary;
    this.server = server;
    this.#replication = replication;
  }

  static async start(primary: PostgresServer): Promise<Standby> {
    const replication = startSilentProxy({ hostname: "127.0.0.1", port: primary.port });
    const server = primary.copy(["-R"]);
    server.configure({
      primary_conninfo: `host=127.0.0.1 port=${replication.port} user=postgres`,
    });
    await server.start();
    const standby = new Standby(primary, server, replication);
    await standby.catchUp();
    return standby;
  }

  /** Resolves when the standby has everything that is committed now. */
  async catchUp(): Promise<void> {
    const [row] = await this.#primary.run("SELECT pg_current_wal_lsn()::text AS lsn");
    const reached = `SELECT COALESCE(pg_last_wal_replay_lsn() >= '${row?.lsn}'::pg_lsn, false) AS reached`;
    await eventually(
      async () => (await this.server.run(reached))[0]?.reached === true,
      REPLICATION_WITHIN_MS,
    );
  }

  /** From here on the standby receives nothing. */
  stopReplication(): void {
    this.#replication.silence({ andLater: true });
  }

  async promote(): Promise<void> {
    await this.server.promote();
    this.#replication.stop();
  }
}

/** A database that a client reaches under one address before and after the failover. */
export class FailoverDatabase {
  readonly standby: Standby;
  readonly #primary: PostgresServer;
  readonly #clients: SilentProxy;

  private constructor(primary: PostgresServer, standby: Standby, clients: SilentProxy) {
    this.#primary = primary;
    this.standby = standby;
    this.#clients = clients;
  }

  static async create(): Promise<FailoverDatabase> {
    const primary = await PostgresServer.create();
    await primary.run("CREATE DATABASE gateway");
    const standby = await Standby.start(primary);
    const clients = startSilentProxy({ hostname: "127.0.0.1", port: primary.port });
    return new FailoverDatabase(primary, standby, clients);
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.#clients.port}/gateway`;
  }

  /** Clients get no response until the failover. */
  silence(): void {
    this.#clients.silence({ andLater: true });
  }

  /** The primary dies, and the standby takes its place. */
  async failOver(): Promise<void> {
    await this.#primary.stop("immediate");
    await this.standby.promote();
    this.#clients.pass();
    this.#clients.moveTo({ hostname: "127.0.0.1", port: this.standby.server.port });
  }

  async remove(): Promise<void> {
    this.#clients.stop();
    await this.#primary.remove();
    await this.standby.server.remove();
  }
}
