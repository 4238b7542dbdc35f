/** The HTTP front end of the gateway: listens for requests, and drains at shutdown. */

import { type ListenOptions, listen } from "../net/http-server/listen.ts";
import { isProxy } from "../net/http-server/proxy.ts";
import { logFault } from "../observe/log.ts";
import { type PortReadinessOptions, Readiness } from "./readiness.ts";
import { Router, type RouterOptions } from "./router.ts";
import { SocketUpgrades, type SocketUpgradesOptions } from "./socket-upgrades.ts";

export interface ServerOptions
  extends Omit<RouterOptions, "shutdownSignal" | "readiness">,
    Omit<PortReadinessOptions, "isDraining">,
    SocketUpgradesOptions {
  hostname: string;
  port: number;
  isPortShared: boolean;
  connections: ListenOptions["limits"];
}

interface DrainTimes {
  /** How long connections without a request are served after the server stopped listening. */
  readonly silentMs: number;
  /** How long requests in flight may take after that. */
  readonly timeoutMs: number;
}

export interface Server {
  readonly url: string;
  readonly port: number;
  readonly readiness: Readiness;
  /**
   * Reports that the node is not ready. Requests are served on, and each response closes its connection, so that the
   * next request of the client reaches another node.
   */
  announceClose(): void;
  /** Stops accepting, lets requests in flight finish, and closes the rest after the timeout. */
  drain(times: DrainTimes): Promise<void>;
}

export function startServer(options: ServerOptions): Server {
  const { clock, log } = options.gateway;
  const shutdown = new AbortController();
  let isClosing = false;
  const upgrades = new SocketUpgrades(options);
  const { isStoreReady, others } = options;
  const readiness = new Readiness({ isStoreReady, others, isDraining: () => isClosing });
  const router = new Router({ ...options, shutdownSignal: shutdown.signal, readiness }, upgrades);
  const listener = listen({
    hostname: options.hostname,
    port: options.port,
    isPortShared: options.isPortShared,
    limits: options.connections,
    isProxy: (address) => isProxy(address, options.publicUrl),
    monotonicMs: clock.monotonicMs,
    nowMs: clock.nowMs,
    serve: (request) => router.serve(request),
    reject: (fault) => router.reject(fault),
    reportFault: (thrown) => logFault(log, { request_id: null }, thrown),
  });
  const announceClose = () => {
    isClosing = true;
    listener.announceClose();
  };
  return {
    url: `http://${listener.hostname}:${listener.port}`,
    port: listener.port,
    readiness,
    announceClose,
    async drain({ silentMs, timeoutMs }) {
      announceClose();
      listener.stopListening();
      // The request of a connection that was accepted just now may be on its way.
      if (silentMs > 0) await Bun.sleep(silentMs);
      shutdown.abort();
      await waitAtMost(timeoutMs, Promise.all([upgrades.drain(), listener.close()]));
      upgrades.closeNow();
      listener.closeNow();
    },
  };
}

async function waitAtMost(timeoutMs: number, done: Promise<unknown>): Promise<void> {
  const { promise: timedOut, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, timeoutMs);
  await Promise.race([done, timedOut]);
  clearTimeout(timer);
}
