/** Upgrades requests to WebSocket connections of the Responses API. */

import { ApiError } from "../errors.ts";
import { Upgrade } from "../net/http-server/incoming-request.ts";
import { upgradeHead } from "../net/websocket/upgrade.ts";
import { ByteBudget, type ByteLimits } from "../responses-websocket/byte-budget.ts";
import { openWebSockets, type WebSockets } from "../responses-websocket/connection.ts";
import type { Session } from "../responses-websocket/session.ts";
import type { Sockets } from "../responses-websocket/sockets.ts";
import { chooseSubprotocol } from "../responses-websocket/subprotocols.ts";
import type { ServerCall } from "./server-call.ts";

export interface SocketUpgradesOptions {
  sockets: Sockets;
  /** Maximum size of a WebSocket frame. */
  frameBytesMax: number;
  /** Memory limits for incomplete frames. */
  unfinishedFrames: ByteLimits;
  socketIdleSeconds: number;
}

/** A frame above the limit by at most this much is read, to reject it with an error message. */
const FRAME_BYTES_SLACK = 1024 * 1024;

export class SocketUpgrades {
  readonly #sockets: Sockets;
  readonly #webSockets: WebSockets<Session>;

  constructor({ sockets, frameBytesMax, unfinishedFrames, socketIdleSeconds }: SocketUpgradesOptions) {
    this.#sockets = sockets;
    this.#webSockets = openWebSockets<Session>({
      messageBytesMax: frameBytesMax + FRAME_BYTES_SLACK,
      silenceMaxMs: socketIdleSeconds * 1_000,
      incompleteBytes: new ByteBudget(unfinishedFrames),
      onMessage: (session, kind, bytes) => session.onMessage(kind, bytes),
      onDrain: (session) => session.onDrain(),
      onClose: (session) => sockets.onClose(session),
    });
  }

  /** Throws the error for a client that is not admitted. */
  upgrade(call: ServerCall): Upgrade {
    const { headers, head: requestHead } = call.request;
    const session = this.#sockets.admit(call);
    const head = upgradeHead({ headers, requestId: call.requestId, protocol: chooseSubprotocol(headers) });
    if (head === null || requestHead.options.isHttp10 || requestHead.framing !== 0) {
      throw new ApiError("invalid_request", "The WebSocket upgrade is malformed. Use a WebSocket client.");
    }
    return new Upgrade(head, (writer) => {
      const socket = this.#webSockets.open(writer, session, session.digest);
      session.onOpen(socket);
      this.#sockets.onOpen(session);
      return socket;
    });
  }

  /** Accepts no more turns. Resolves when the last connection is closed. */
  drain(): Promise<void> {
    return this.#sockets.drain();
  }

  /** Closes all remaining connections at once. */
  closeNow(): void {
    this.#sockets.terminateAll();
    this.#sockets.stop();
    this.#webSockets.stop();
  }
}
