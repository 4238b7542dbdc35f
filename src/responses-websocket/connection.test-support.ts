/** Test support: one connection without a network, with its input, its output and its callbacks. */

import { wholePart } from "../base/parts.ts";
import { RecordingSocketWriter } from "../net/http-server/socket-writer.test-support.ts";
import { buildFrame, CLOSE, closeFrame, FrameReader, TEXT } from "../net/websocket/frames.ts";
import { ByteBudget } from "./byte-budget.ts";
import { openWebSockets, type WebSocketEnd } from "./connection.ts";

const MASK = Uint8Array.of(0xa1, 0x02, 0xfe, 0x77);
export const MESSAGE_BYTES_MAX = 100_000;
/** The test performs the checks: eight of them are the time that a connection may be silent. */
export const SILENCE_MS = 8_000;
export const SILENT_CHECKS = 8;
export const CLOSE_CHECKS = 3;

/** The owner of a connection. */
export interface Owner {
  name: string;
}

export interface ConnectionHarness {
  socket: WebSocketEnd<Owner>;
  writer: RecordingSocketWriter;
  /** The callbacks that the owner received. */
  callbacks: string[];
  /** Sends bytes from the client. */
  receive(...frames: Uint8Array[]): void;
  /** The frames sent to the client: opcode, and payload as Latin-1. */
  sent(): [opcode: number, payload: string][];
  check(times: number): void;
}

/** The budget for incomplete messages, shared by the stages that use it. */
export const budgetFor = (bytes: number, keyBytes = bytes) =>
  new ByteBudget({ bytesMax: bytes, keyBytesMax: keyBytes });

export function openHarness(
  onMessage: (socket: WebSocketEnd<Owner>) => void = () => {},
  incompleteBytes = budgetFor(MESSAGE_BYTES_MAX),
  key = "a key",
): ConnectionHarness {
  const callbacks: string[] = [];
  const writer = new RecordingSocketWriter();
  const all = openWebSockets<Owner>({
    messageBytesMax: MESSAGE_BYTES_MAX,
    silenceMaxMs: SILENCE_MS,
    incompleteBytes,
    onMessage(_, kind, bytes) {
      callbacks.push(`${kind} ${Buffer.from(bytes)}`);
      onMessage(socket);
    },
    onDrain: () => void callbacks.push("drained"),
    onClose: () => void callbacks.push("closed"),
  });
  all.stop();
  const socket = all.open(writer, { name: "a" }, key);
  return {
    socket,
    writer,
    callbacks,
    receive: (...frames) => socket.onData(Buffer.concat(frames)),
    sent() {
      const out: [number, string][] = [];
      const reader = new FrameReader({ isMasked: false, messageBytesMax: 2 ** 30 });
      reader.push(Buffer.concat(writer.writes), {
        onMessage: (opcode, bytes, start, end) =>
          out.push([opcode, Buffer.from(bytes.subarray(start, end)).toString("latin1")]),
        onControl: (opcode, payload) => out.push([opcode, Buffer.from(payload).toString("latin1")]),
      });
      return out;
    },
    check(times) {
      for (let i = 0; i < times; i++) socket.check();
    },
  };
}

export const frame = (opcode: number, payload: string | Uint8Array) =>
  buildFrame(opcode, wholePart(Buffer.from(payload)), MASK);
export const text = (payload: string) => frame(TEXT, payload);
export const clientClose = (code: number | null, reason = "") => closeFrame(code, reason, MASK);

/** A frame that is only a part of its message. */
export function part(opcode: number, payload: string | Uint8Array, isFinal: boolean): Uint8Array {
  const made = frame(opcode, payload);
  made[0] = (isFinal ? 0x80 : 0) | opcode;
  return made;
}

/** A close frame of the server as the client sees it. */
export const serverClose = (code: number, reason = ""): [number, string] => [
  CLOSE,
  String.fromCharCode(code >> 8, code & 0xff) + reason,
];
