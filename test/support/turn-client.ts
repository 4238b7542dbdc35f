/** A client of `GET /v1/responses` as a WebSocket: sends frames, and collects the received ones. */

import { eventually } from "./eventually.ts";
import { TEST_KEY } from "./running-gateway.ts";

export interface ServerEvent extends Record<string, unknown> {
  type: string;
}

export interface SocketClient {
  /** All events so far. */
  readonly events: readonly ServerEvent[];
  send(frame: object | string | Uint8Array): void;
  /** `response.create` with these fields. */
  create(fields: object): void;
  /** The next events up to and including the first of one of these types, without those of earlier calls. */
  until(...types: string[]): Promise<ServerEvent[]>;
  /** All events of the next turn, up to its terminal event. */
  turn(fields: object): Promise<Turn>;
  /** How the connection was closed, by the server or by the network. */
  readonly closed: Promise<{ code: number; reason: string }>;
  close(): void;
}

export interface Turn {
  readonly events: ServerEvent[];
  readonly last: ServerEvent;
  /** The id in the last event; empty for an error frame. */
  readonly responseId: string;
}

const ENDS = ["response.completed", "response.incomplete", "response.failed", "error"];

export interface SocketOptions {
  key?: string | null;
  headers?: Readonly<Record<string, string>>;
}

/** Rejects if the upgrade is rejected. */
export async function openSocketClient(url: string, options: SocketOptions = {}): Promise<SocketClient> {
  const key = options.key === undefined ? TEST_KEY : options.key;
  const headers = {
    ...(key === null ? {} : { authorization: `Bearer ${key}` }),
    ...options.headers,
  };
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/v1/responses`, { headers });
  socket.binaryType = "arraybuffer";
  const events: ServerEvent[] = [];
  let taken = 0;
  socket.addEventListener("message", ({ data }) => {
    if (typeof data !== "string") throw new Error("a frame was not text");
    events.push(JSON.parse(data));
  });
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.addEventListener("close", ({ code, reason }) => resolve({ code, reason }));
  });
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () => resolve());
    socket.addEventListener("error", () => reject(new Error("the upgrade was refused")));
  });

  const client: SocketClient = {
    events,
    send(frame) {
      const isRaw = typeof frame === "string" || frame instanceof Uint8Array;
      socket.send(isRaw ? frame : JSON.stringify(frame));
    },
    create: (fields) => client.send({ type: "response.create", ...fields }),
    async until(...types) {
      const found = await eventually(() => {
        const at = events.findIndex(({ type }, i) => i >= taken && types.includes(type));
        return at === -1 ? null : { at };
      });
      const next = events.slice(taken, found.at + 1);
      taken = found.at + 1;
      return next;
    },
    async turn(fields) {
      client.create(fields);
      const all = await client.until(...ENDS);
      const last = all.at(-1) ?? { type: "none" };
      const { response } = last;
      const id = typeof response === "object" && response !== null && "id" in response ? response.id : "";
      return { events: all, last, responseId: String(id) };
    },
    closed,
    close: () => socket.close(),
  };
  return client;
}
