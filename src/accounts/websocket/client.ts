/** Responses over WebSockets to upstreams: a socket for each response, reused afterwards. */

import { type Part, partsLength } from "../../base/parts.ts";
import { ConnectionPool, type ConnectionsOptions } from "../../net/http-client/connections.ts";
import type { HttpExchange, ResponseSink } from "../../net/http-client/contract.ts";
import type { DialTarget } from "../../net/http-client/dial.ts";
import { findHeadFault } from "../../net/http-client/request-head.ts";
import type { PolicyAccount } from "../account.ts";
import type { SocketSetting } from "./upstream-socket.ts";
import { type TurnFailure, type TurnRequest, UpstreamTurn } from "./upstream-turn.ts";
import { WarmSockets, type WarmSocketsOptions } from "./warm-sockets.ts";

export { UpstreamLane } from "./upstream-socket.ts";
export type { TurnFailure, TurnRequest } from "./upstream-turn.ts";

interface SocketRequest extends TurnRequest {
  readonly account: PolicyAccount;
  readonly target: DialTarget;
  readonly path: string;
  /** Header lines of the handshake, each terminated by CR LF. Sockets with other headers are not reused. */
  readonly headers: string;
}

export interface SocketClient {
  /** False for a long request, and while the upstream is known to reject WebSocket upgrades. */
  isSupported(account: PolicyAccount, wholeBody: readonly Part[]): boolean;
  /** See `HttpClient.send`. */
  send(request: SocketRequest, sink: ResponseSink<TurnFailure>): HttpExchange;
  /** Closes sockets of other accounts and of outdated credentials as soon as they are free. */
  retain(accounts: ReadonlyMap<string, PolicyAccount>): void;
  /** Closes free sockets now, and the others after their current response. */
  close(): void;
}

export interface SocketClientOptions
  extends Omit<ConnectionsOptions, "clock" | "idleMs" | "idlePerOriginMax">,
    Omit<SocketSetting, "connections">,
    WarmSocketsOptions {
  /** A longer request is sent by HTTP. */
  sentBytesMax: number;
  /** How long HTTP is used for an upstream that rejected a handshake. */
  unsupportedMs: number;
  onUnsupported(account: PolicyAccount, status: number): void;
}

export function openSocketClient(options: SocketClientOptions): SocketClient {
  const { monotonicMs, unsupportedMs } = options;
  const connections = new ConnectionPool({
    ...options,
    clock: { monotonicMs },
    // A WebSocket connection is never returned to the HTTP pool.
    idlePerOriginMax: 0,
  });
  const setting: SocketSetting = { ...options, connections };
  const warm = new WarmSockets(options);
  const unsupported = new Map<string, { account: PolicyAccount; untilMs: number }>();

  function isSupported(account: PolicyAccount, wholeBody: readonly Part[]): boolean {
    if (partsLength(wholeBody) > options.sentBytesMax) return false;
    const entry = unsupported.get(account.id);
    if (entry === undefined) return true;
    if (isSame(entry.account, account) && monotonicMs() < entry.untilMs) return false;
    unsupported.delete(account.id);
    return true;
  }

  return {
    isSupported,
    send(request, sink) {
      const { account, target, path, headers } = request;
      const setKey = `${account.id}\n${account.baseUrl}\n${path}\n${headers}`;
      const turn = new UpstreamTurn(
        {
          setting,
          warm,
          socketSet: warm.getSet(setKey, account),
          address() {
            const fault = findHeadFault(request);
            if (fault !== null) throw new Error(fault);
            return { route: connections.resolveRoute(target), path, headers };
          },
          onUnsupported(status) {
            unsupported.set(account.id, { account, untilMs: monotonicMs() + unsupportedMs });
            options.onUnsupported(account, status);
          },
        },
        request,
        sink,
      );
      turn.start();
      return turn;
    },
    retain(accounts) {
      for (const id of [...unsupported.keys()]) if (!accounts.has(id)) unsupported.delete(id);
      warm.retain(({ account }) => {
        const current = accounts.get(account.id);
        return current !== undefined && isSame(account, current);
      });
    },
    close: () => warm.close(),
  };
}

/** Whether sockets of the two accounts are interchangeable. */
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
