/** Test support: a listener on a free port with a handler of the test, and a client that may break the protocol. */

import { connect } from "node:net";
import { eventually } from "../../../test/support/eventually.ts";
import { type BodyLoss, WholeResponse } from "../wire/http-message.ts";
import { type Part, partBytes } from "../wire/parts.ts";
import { type HttpListener, type ListenOptions, listen } from "./listen.ts";

export interface TestListener extends HttpListener {
  readonly url: string;
  /** Exceptions that were reported to `fault`. */
  readonly faults: readonly unknown[];
  /** Advances the clock, which stands still otherwise, so that no deadline expires by itself. */
  pass(ms: number): void;
  /** Resolves after the next check of all connections. */
  looked(): Promise<void>;
}

const LIMITS: ListenOptions["limits"] = {
  headBytesMax: 16 * 1024,
  headMs: 60_000,
  idleMs: 60_000,
  unaskedMs: 60_000,
  lingerMs: 60_000,
  stallMs: 60_000,
  firstByteMs: 60_000,
  max: 1_000,
  blockShare: 1 / 2,
  aheadBytesMax: 64 * 1024,
  strangerBytesMax: 32 * 1024 * 1024,
  clientBytesMax: 32 * 1024 * 1024,
  lookMs: 5,
};

export function listenForTest(
  serve: ListenOptions["serve"],
  limits: Partial<ListenOptions["limits"]> = {},
  refuse: ListenOptions["refuse"] = ({ kind, reason }) => textAnswer(`${kind}: ${reason}`, 400),
  isProxy: ListenOptions["isProxy"] = () => true,
): TestListener {
  let nowMs = 0;
  let looks = 0;
  const faults: unknown[] = [];
  const listening = listen({
    hostname: "127.0.0.1",
    port: 0,
    limits: { ...LIMITS, ...limits },
    monotonicMs() {
      looks++;
      return nowMs;
    },
    nowMs: () => 0,
    isProxy,
    serve,
    refuse,
    fault: (thrown) => void faults.push(thrown),
  });
  return {
    ...listening,
    faults,
    url: `http://127.0.0.1:${listening.port}/`,
    pass(ms) {
      nowMs += ms;
    },
    async looked() {
      const before = looks;
      await eventually(() => looks > before);
    },
  };
}

export function textAnswer(text: string, status = 200): WholeResponse {
  return new WholeResponse(status, "content-type: text/plain\r\n", Buffer.from(text));
}

/** The text of a body that was read whole, or the kind of its loss. */
export function wholeText(read: Part | BodyLoss): string {
  return "kind" in read ? read.kind : Buffer.from(partBytes(read)).toString();
}

/** A client that can send arbitrary bytes and records everything it receives. */
export interface RawClient {
  /** One character per byte. */
  heard(): string;
  /** How the other side ended the connection. */
  ending(): "open" | "closed" | "reset";
  send(...bytes: readonly (string | Uint8Array)[]): void;
  /** Bytes that the kernel has not accepted yet. */
  unsentBytes(): number;
  /** Everything received so far, once it contains the text. */
  hears(text: string): Promise<string>;
  /** Everything received, once the other side has ended the connection. */
  end(): Promise<string>;
  /** Stops reading until `goOnTaking`. */
  stopTaking(): void;
  goOnTaking(): void;
  leave(): void;
}

export async function dial(port: number): Promise<RawClient> {
  const pieces: Buffer[] = [];
  let ending: "open" | "closed" | "reset" = "open";
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
  socket.on("data", (bytes) => pieces.push(Buffer.from(bytes)));
  socket.on("error", () => {
    ending = "reset";
  });
  socket.on("end", () => {
    if (ending === "open") ending = "closed";
  });
  await new Promise((resolve) => socket.once("connect", resolve));
  const heard = () => Buffer.concat(pieces).toString("latin1");
  return {
    heard,
    ending: () => ending,
    send(...parts) {
      for (const part of parts) socket.write(typeof part === "string" ? Buffer.from(part, "latin1") : part);
    },
    unsentBytes: () => socket.writableLength,
    async hears(text) {
      await eventually(() => heard().includes(text));
      return heard();
    },
    async end() {
      await eventually(() => ending !== "open");
      return heard();
    },
    stopTaking: () => void socket.pause(),
    goOnTaking: () => void socket.resume(),
    leave: () => void socket.destroy(),
  };
}

/** The text of a request without a body. */
export function getText(path: string, ...fields: string[]): string {
  return [`GET ${path} HTTP/1.1`, "Host: gw", ...fields, "", ""].join("\r\n");
}

/** The head of a request with a body. */
export function postText(path: string, ...fields: string[]): string {
  return getText(path, ...fields).replace("GET", "POST");
}
