import type { HttpFailure } from "../../net/http-client/contract.ts";
import { type SocketAddress, type SocketSetting, UpstreamSocket } from "./upstream-socket.ts";

export type HandshakeProbe =
  | { readonly kind: "open" }
  | { readonly kind: "refused"; readonly status: number }
  | { readonly kind: "failed"; readonly failure: HttpFailure };

/** Shakes hands and leaves: whether an upstream makes a WebSocket of a connection. */
export function probeHandshake(setting: SocketSetting, address: SocketAddress): Promise<HandshakeProbe> {
  return new Promise((resolve) => {
    new UpstreamSocket(setting, address, {
      opened(socket) {
        socket.close();
        resolve({ kind: "open" });
      },
      refused: (status) => resolve({ kind: "refused", status }),
      message() {},
      readEnded() {},
      closed: (_, failure) => resolve({ kind: "failed", failure }),
    });
  });
}
