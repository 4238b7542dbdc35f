/** Responses over WebSockets to upstreams: each on a socket of its own while it lasts, which then serves others. */

import { type ConnectionsOptions, openConnections } from "../../net/http-client/connections.ts";
import type { HttpExchange } from "../../net/http-client/contract.ts";
import type { DialTarget } from "../../net/http-client/dial.ts";
import { findHeadFault } from "../../net/http-client/request-head.ts";
import type { PolicyAccount } from "../../policy/snapshot.ts";
import { type TurnRequest, UpstreamTurn, type UpstreamTurnHandler } from "./turn.ts";
import type { SocketSetting } from "./upstream-socket.ts";
import { openWarmSockets, type WarmSocketsOptions } from "./warm-sockets.ts";

export type { TurnRequest, UpstreamTurnHandler } from "./turn.ts";
export { SocketConversation } from "./upstream-socket.ts";

export interface SocketRequest extends TurnRequest {
  readonly account: PolicyAccount;
  readonly target: DialTarget;
  readonly path: string;
  /** Of the handshake: complete lines, each ended by CR LF. Sockets with other ones are not used. */
  readonly headers: string;
}

export interface SocketClient {
  /** False while its upstream is known not to make WebSockets of connections, whatever the operator thinks. */
  speaks(account: PolicyAccount): boolean;
  /** As `HttpClient.send`. */
  send(request: SocketRequest, taker: UpstreamTurnHandler): HttpExchange;
  /** Sockets to other accounts, and by other credentials than these have now, are closed as soon as they are free. */
  retain(accounts: ReadonlyMap<string, PolicyAccount>): void;
  /** Free sockets are closed, now and after each response that is still under way. */
  close(): void;
}

export interface SocketClientOptions
  extends Omit<ConnectionsOptions, "clock" | "idleMs" | "idlePerOriginMax">,
    Omit<SocketSetting, "connections">,
    WarmSocketsOptions {
  /** How long an upstream that refused a handshake is spoken to over HTTP. */
  unspokenMs: number;
  noteUnspoken(account: PolicyAccount, status: number): void;
}

export function openSocketClient(options: SocketClientOptions): SocketClient {
  const { monotonicMs, unspokenMs } = options;
  const connections = openConnections({
    ...options,
    clock: { monotonicMs },
    // None is ever given back: what was a WebSocket carries nothing else.
    idlePerOriginMax: 0,
  });
  const setting: SocketSetting = { ...options, connections };
  const warm = openWarmSockets(options);
  const unspoken = new Map<string, { account: PolicyAccount; untilMs: number }>();

  function speaks(account: PolicyAccount): boolean {
    const known = unspoken.get(account.id);
    if (known === undefined) return true;
    if (isSame(known.account, account) && monotonicMs() < known.untilMs) return false;
    unspoken.delete(account.id);
    return true;
  }

  return {
    speaks,
    send(request, taker) {
      const { account, target, path, headers } = request;
      const purpose = `${account.id}\n${account.baseUrl}\n${path}\n${headers}`;
      const turn = new UpstreamTurn(
        {
          setting,
          warm,
          shelf: warm.shelfFor(purpose, account),
          address() {
            const fault = findHeadFault(request);
            if (fault !== null) throw new Error(fault);
            return { route: connections.routeOf(target), path, headers };
          },
          noteUnspoken(status) {
            unspoken.set(account.id, { account, untilMs: monotonicMs() + unspokenMs });
            options.noteUnspoken(account, status);
          },
        },
        request,
        taker,
      );
      turn.start();
      return turn;
    },
    retain(accounts) {
      for (const id of [...unspoken.keys()]) if (!accounts.has(id)) unspoken.delete(id);
      warm.retain(({ account }) => {
        const now = accounts.get(account.id);
        return now !== undefined && isSame(account, now);
      });
    },
    close: warm.close,
  };
}

/** A socket to the one is as good as a socket to the other. */
function isSame(a: PolicyAccount, b: PolicyAccount): boolean {
  return (
    a.credential === b.credential &&
    a.baseUrl === b.baseUrl &&
    a.kind === b.kind &&
    a.apiVersion === b.apiVersion &&
    a.privateNetwork === b.privateNetwork &&
    a.websocket === b.websocket
  );
}
