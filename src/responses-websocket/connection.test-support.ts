/** One connection without a network: what it is sent, what it says, and what is told of it. */

import { NotingOutlet } from "../net/http-server/socket-writer.test-support.ts";
import { buildFrame, CLOSE, closeFrame, FrameReader, TEXT } from "../net/websocket/frames.ts";
import { wholePart } from "../net/wire/parts.ts";
import { ByteBudget } from "./byte-budget.ts";
import { openWebSockets, type WebSocketEnd } from "./connection.ts";

const MASK = Uint8Array.of(0xa1, 0x02, 0xfe, 0x77);
export const MESSAGE_BYTES_MAX = 100_000;
/** Looks are taken by hand: eight of them are the time that a connection may be silent. */
export const SILENCE_MS = 8_000;
export const SILENT_LOOKS = 8;
export const FAREWELL_LOOKS = 3;

/** Whom a connection is for. */
export interface Owner {
  name: string;
}

export interface Stage {
  socket: WebSocketEnd<Owner>;
  outlet: NotingOutlet;
  /** What whoever it is for was told. */
  told: string[];
  /** From the client. */
  hear(...frames: Uint8Array[]): void;
  /** What the client was sent: opcode, and payload as Latin-1. */
  sent(): [opcode: number, payload: string][];
  look(times: number): void;
}

/** Room for what is not whole yet, shared by whatever stages it is given to. */
export const roomFor = (bytes: number, keyBytes = bytes) =>
  new ByteBudget({ bytesMax: bytes, keyBytesMax: keyBytes });

export function stage(
  onMessage: (socket: WebSocketEnd<Owner>) => void = () => {},
  unfinished = roomFor(MESSAGE_BYTES_MAX),
  key = "a key",
): Stage {
  const told: string[] = [];
  const outlet = new NotingOutlet();
  const all = openWebSockets<Owner>({
    messageBytesMax: MESSAGE_BYTES_MAX,
    silenceMs: SILENCE_MS,
    unfinished,
    message(_, kind, bytes) {
      told.push(`${kind} ${Buffer.from(bytes)}`);
      onMessage(socket);
    },
    drained: () => void told.push("drained"),
    closed: () => void told.push("closed"),
  });
  all.stop();
  const socket = all.open(outlet, { name: "a" }, key);
  return {
    socket,
    outlet,
    told,
    hear: (...frames) => socket.received(Buffer.concat(frames)),
    sent() {
      const out: [number, string][] = [];
      const reader = new FrameReader({ isMasked: false, messageBytesMax: 2 ** 30 });
      reader.push(Buffer.concat(outlet.writes), {
        message: (opcode, bytes, start, end) =>
          out.push([opcode, Buffer.from(bytes.subarray(start, end)).toString("latin1")]),
        control: (opcode, payload) => out.push([opcode, Buffer.from(payload).toString("latin1")]),
      });
      return out;
    },
    look(times) {
      for (let i = 0; i < times; i++) socket.look();
    },
  };
}

export const frame = (opcode: number, payload: string | Uint8Array) =>
  buildFrame(opcode, wholePart(Buffer.from(payload)), MASK);
export const text = (payload: string) => frame(TEXT, payload);
export const goodbye = (code: number | null, reason = "") => closeFrame(code, reason, MASK);

/** A frame that is not the whole of its message. */
export function part(opcode: number, payload: string | Uint8Array, isFinal: boolean): Uint8Array {
  const made = frame(opcode, payload);
  made[0] = (isFinal ? 0x80 : 0) | opcode;
  return made;
}

/** What a client sees of a close of ours. */
export const closeOf = (code: number, reason = ""): [number, string] => [
  CLOSE,
  String.fromCharCode(code >> 8, code & 0xff) + reason,
];
