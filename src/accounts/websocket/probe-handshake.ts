/** Probes the WebSocket handshake of an upstream. */

import type { HttpFailure } from "../../net/http-client/contract.ts";
import { type SocketAddress, type SocketSetting, UpstreamSocket } from "./upstream-socket.ts";

export type HandshakeProbe =
  | { readonly kind: "open" }
  | { readonly kind: "refused"; readonly status: number }
  | { readonly kind: "failed"; readonly failure: HttpFailure };

/** Performs a handshake and closes the socket, to find out whether an upstream accepts WebSockets. */
export function probeHandshake(setting: SocketSetting, address: SocketAddress): Promise<HandshakeProbe> {
  return new Promise((resolve) => {
    new UpstreamSocket(setting, address, {
      onOpen(socket) {
        socket.close();
        resolve({ kind: "open" });
      },
      onReject: (status) => resolve({ kind: "refused", status }),
      onMessage() {},
      onReadEnd() {},
      onClose: (_, failure) => resolve({ kind: "failed", failure }),
    });
  });
}
