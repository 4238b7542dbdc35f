/** Test support: a listener on a free port with a handler of the test, and a client that may break the protocol. */

import { connect } from "node:net";
import { eventually } from "../../../test/support/eventually.ts";
import { type Part, partBytes } from "../../base/parts.ts";
import { type BodyLoss, type StreamSource, WholeResponse } from "../wire/http-message.ts";
import { type HttpListener, type ListenOptions, listen } from "./listen.ts";

export interface TestListener extends HttpListener {
  readonly url: string;
  /** Exceptions that were reported to `fault`. */
  readonly faults: readonly unknown[];
  /** Advances the clock, which stands still otherwise, so that no deadline expires by itself. */
  pass(ms: number): void;
  /** Resolves after the next check of all connections. */
  nextCheck(): Promise<void>;
}

const LIMITS: ListenOptions["limits"] = {
  headBytesMax: 16 * 1024,
  headMs: 60_000,
  idleMs: 60_000,
  unreadBodyMs: 60_000,
  lingerMs: 60_000,
  stallMs: 60_000,
  firstByteMs: 60_000,
  max: 1_000,
  blockShare: 1 / 2,
  readAheadBytesMax: 64 * 1024,
  unauthenticatedBytesMax: 32 * 1024 * 1024,
  authenticatedBytesMax: 32 * 1024 * 1024,
  unsentBytesMax: 256 * 1024 * 1024,
  checkMs: 5,
};

export function listenForTest(
  serve: ListenOptions["serve"],
  limits: Partial<ListenOptions["limits"]> = {},
  reject: ListenOptions["reject"] = ({ kind, reason }) => textResponse(`${kind}: ${reason}`, 400),
  isProxy: ListenOptions["isProxy"] = () => true,
): TestListener {
  let nowMs = 0;
  let checks = 0;
  const faults: unknown[] = [];
  const listening = listen({
    hostname: "127.0.0.1",
    port: 0,
    isPortShared: false,
    limits: { ...LIMITS, ...limits },
    monotonicMs() {
      checks++;
      return nowMs;
    },
    nowMs: () => 0,
    isProxy,
    serve,
    reject,
    reportFault: (thrown) => void faults.push(thrown),
  });
  return {
    ...listening,
    faults,
    url: `http://127.0.0.1:${listening.port}/`,
    pass(ms) {
      nowMs += ms;
    },
    async nextCheck() {
      const before = checks;
      await eventually(() => checks > before);
    },
  };
}

export function textResponse(text: string, status = 200): WholeResponse {
  return new WholeResponse(status, "content-type: text/plain\r\n", Buffer.from(text));
}

/** The text of a body that was read whole, or the kind of its loss. */
export function wholeText(read: Part | BodyLoss): string {
  return "kind" in read ? read.kind : Buffer.from(partBytes(read)).toString();
}

/** A client that can send arbitrary bytes and records everything it receives. */
export interface RawClient {
  /** One character per byte. */
  received(): string;
  /** How the other side ended the connection. */
  ending(): "open" | "closed" | "reset";
  send(...bytes: readonly (string | Uint8Array)[]): void;
  /** Bytes that the kernel has not accepted yet. */
  unsentBytes(): number;
  /** Everything received so far, once it contains the text. */
  waitForText(text: string): Promise<string>;
  /** Everything received, once the other side has ended the connection. */
  end(): Promise<string>;
  /** Stops reading until `resume`. */
  pause(): void;
  resume(): void;
  destroy(): void;
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
  const received = () => Buffer.concat(pieces).toString("latin1");
  return {
    received,
    ending: () => ending,
    send(...parts) {
      for (const part of parts) socket.write(typeof part === "string" ? Buffer.from(part, "latin1") : part);
    },
    unsentBytes: () => socket.writableLength,
    async waitForText(text) {
      await eventually(() => received().includes(text));
      return received();
    },
    async end() {
      await eventually(() => ending !== "open");
      return received();
    },
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    destroy: () => void socket.destroy(),
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

/** A stream source of which the test implements only what it needs. */
export function streamSource(change: Partial<StreamSource>): StreamSource {
  return { flowTo() {}, pause() {}, resume() {}, abort() {}, ...change };
}
