/**
 * One connection of a client: heads and bodies in, answers out, one request after the other. A request that comes while
 * another is answered waits its turn.
 *
 * The states are few: between requests, within one, and lingering, when the last answer is out and what the client still
 * sends is thrown away, because closing on unread bytes would take the answer away from it again.
 */

import type { Socket, SocketHandler } from "bun";
import { CHUNKED, CR, LF } from "../../wire/http-fields.ts";
import { type Answer, type HttpBody, StreamAnswer, WholeAnswer } from "../../wire/http-message.ts";
import { abandon, type Carrier, startStream, writeResponse, writeWhole } from "./answers.ts";
import type { ConnectionLimits } from "./connection-limits.ts";
import { IncomingRequest, Upgrade } from "./exchange.ts";
import { IncomingBody, WholeBody } from "./incoming-body.ts";
import type { Outlet, Protocol } from "./outlet.ts";
import { parseRequestHead, type RequestFault, RequestHead } from "./request-head.ts";
import { Sender } from "./sender.ts";

/** What all connections share. */
export interface Hall {
  readonly limits: ConnectionLimits;
  /** As of the last look at all connections. */
  readonly nowMs: number;
  /** `date: …`, with its line end. */
  readonly dateLine: string;
  readonly isClosing: boolean;
  /** Does not fail. */
  serve(request: IncomingRequest): Answer | Upgrade | Promise<Answer | Upgrade>;
  refuse(fault: RequestFault): WholeAnswer;
  /** It is owed nothing more; what it still sends is thrown away. */
  ended(connection: Connection): void;
  left(connection: Connection): void;
}

const CONTINUE = Buffer.from("HTTP/1.1 100 Continue\r\n\r\n");
/** What is kept of requests that come before their turn. */
const EARLY_BYTES_MAX = 1024 * 1024;
/** The next request is served while so much of the last answer was not taken. */
const AHEAD_BYTES_MAX = 64 * 1024;
const HEAD_END = "\r\n\r\n";
const NOTHING = Buffer.alloc(0);

export class Connection implements Outlet, Carrier {
  private readonly hall: Hall;
  private readonly socket: Socket<Connection>;
  private state: "between" | "within" | "lingering" | "over" = "between";
  private request: IncomingRequest | null = null;
  /** Of the request, while it is still coming. */
  private incoming: IncomingBody | null = null;
  private protocol: Protocol | null = null;
  /** A stream that is being sent. */
  private leave: (() => void) | null = null;
  /** Read and not yet understood: part of a head, or what comes before its turn. */
  private held: Buffer = NOTHING;
  private isHeadPartial = false;
  private keepsAlive = true;
  /** Since when it is in its state, or has taken nothing. */
  private sinceMs: number;
  private readonly sender: Sender;
  private endsWhenSent = false;
  private isPaused = false;
  private leaving: AbortController | null = null;

  constructor(hall: Hall, socket: Socket<Connection>) {
    this.hall = hall;
    this.socket = socket;
    this.sender = new Sender(socket);
    this.sinceMs = hall.nowMs;
  }

  get address(): string {
    return this.socket.remoteAddress;
  }

  /** One for all requests of the connection: nearly none of them needs it, and each would have to make one. */
  get signal(): AbortSignal {
    this.leaving ??= new AbortController();
    if (this.state === "over" && !this.leaving.signal.aborted) this.leaving.abort();
    return this.leaving.signal;
  }

  // What the socket says.

  received(bytes: Buffer): void {
    if (this.protocol !== null) this.protocol.received(bytes);
    else if (this.incoming !== null) {
      this.receivedBody(this.incoming, bytes, 0);
      // Nobody waited for the rest of it: the answer is out already.
      if (this.isOwedNothing()) this.goOn();
    } else if (this.state === "between" && !this.endsWhenSent)
      this.receivedHead(this.held.length === 0 ? bytes : this.joined(bytes));
    else if (this.state === "within" && this.keepsAlive) this.keepAhead(bytes);
  }

  drained(): void {
    this.sinceMs = this.hall.nowMs;
    if (this.state === "over" || !this.sender.flush()) return;
    if (this.endsWhenSent) this.endNow();
    else if (this.protocol !== null) this.protocol.drained();
    else if (this.isOwedNothing()) this.goOn();
  }

  closed(): void {
    if (this.state === "over") return;
    this.state = "over";
    this.hall.left(this);
    this.incoming?.fail();
    this.leave?.();
    this.sender.drop();
    this.protocol?.closed();
    this.leaving?.abort();
    this.request = null;
    this.incoming = null;
    this.held = NOTHING;
  }

  /** Once in a while: who has kept us waiting for too long. */
  look(nowMs: number): void {
    if (this.protocol !== null && this.state !== "lingering") return;
    const { headMs, idleMs, lingerMs, stallMs } = this.hall.limits;
    const ms = nowMs - this.sinceMs;
    if (this.sender.bytes > 0) {
      if (ms > stallMs) this.terminate();
    } else if (this.isThrowingAway() && ms > lingerMs) this.terminate();
    else if (this.state === "between" && this.isHeadPartial && ms > headMs) {
      this.refuse({ kind: "late", reason: "the head of the request did not come in time" });
    } else if (this.state === "between" && ms > idleMs) this.end();
  }

  private isThrowingAway(): boolean {
    return this.state === "lingering" || this.isOwedNothing();
  }

  /** The answer is out, and the connection does not go on yet. */
  private isOwedNothing(): boolean {
    return this.state === "within" && this.request === null;
  }

  /** The process ends: idle connections go at once, the others with their answer. */
  retire(): void {
    if (this.state === "between" && this.protocol === null) this.end();
  }

  // What is heard.

  private joined(bytes: Buffer): Buffer {
    const all = Buffer.concat([this.held, bytes]);
    // Without the empty line there is nothing new to say: a head that comes in crumbs is not parsed for each.
    const seam = Math.max(0, this.held.length - 3);
    if (this.isHeadPartial && !all.includes(HEAD_END, seam) && all.length <= this.hall.limits.headBytesMax) {
      this.held = all;
      return NOTHING;
    }
    this.held = NOTHING;
    return all;
  }

  private receivedHead(bytes: Buffer): void {
    let from = 0;
    // Some clients send an empty line too much after a body.
    while (bytes[from] === CR && bytes[from + 1] === LF) from += 2;
    if (from === bytes.length) return;
    if (bytes[from] === CR && from + 1 === bytes.length) {
      this.held = bytes.subarray(from);
      return;
    }
    const head = parseRequestHead(bytes, from);
    const headBytes = (head instanceof RequestHead ? head.bodyAt : bytes.length) - from;
    if (headBytes > this.hall.limits.headBytesMax && (head === null || head instanceof RequestHead)) {
      this.refuse({ kind: "head_too_large", reason: `more than ${this.hall.limits.headBytesMax} bytes` });
    } else if (head === null) {
      if (!this.isHeadPartial) this.sinceMs = this.hall.nowMs;
      this.isHeadPartial = true;
      this.held = from === 0 ? bytes : bytes.subarray(from);
    } else if (head instanceof RequestHead) {
      this.isHeadPartial = false;
      this.begin(head, bytes);
    } else this.refuse(head);
  }

  private begin(head: RequestHead, bytes: Buffer): void {
    this.state = "within";
    this.sinceMs = this.hall.nowMs;
    this.keepsAlive = head.keepsAlive;
    const { framing, bodyAt } = head;
    const bodyTo = bodyAt + framing;
    if (framing !== CHUNKED && bodyTo <= bytes.length) {
      if (bodyTo < bytes.length) this.keepAhead(bytes.subarray(bodyTo));
      this.serve(head, framing === 0 ? null : new WholeBody(bytes, bodyAt, bodyTo));
    } else {
      const body = new IncomingBody(framing, this);
      this.incoming = body;
      this.receivedBody(body, bytes, bodyAt);
      this.serve(head, body);
    }
  }

  private serve(head: RequestHead, body: HttpBody | null): void {
    const request = new IncomingRequest(this, head, body);
    this.request = request;
    const answer = this.hall.serve(request);
    if (answer instanceof Promise) {
      answer.then((given) => this.answer(request, given)).catch(() => this.terminate());
    } else this.answer(request, answer);
  }

  private receivedBody(body: IncomingBody, bytes: Buffer, from: number): void {
    const at = body.push(bytes, from);
    if (!body.isOver) return;
    this.incoming = null;
    // It may be paused for whoever reads the body; that the client leaves is to be seen all the same.
    this.resume();
    if (body.isBroken) this.keepsAlive = false;
    else if (at < bytes.length) this.keepAhead(bytes.subarray(at));
  }

  private keepAhead(bytes: Buffer): void {
    this.held = this.held.length === 0 ? bytes : Buffer.concat([this.held, bytes]);
    if (this.held.length <= EARLY_BYTES_MAX) return;
    // Not paused: that the client leaves would not be seen. It asks again for what was not answered.
    this.held = NOTHING;
    this.keepsAlive = false;
  }

  // A body's source.

  wanted(): void {
    if (this.request?.head.expectsContinue) this.write(CONTINUE);
  }

  pause(): void {
    if (this.isPaused || this.state === "over") return;
    this.isPaused = true;
    this.socket.pause();
  }

  resume(): void {
    if (!this.isPaused || this.state === "over") return;
    this.isPaused = false;
    this.socket.resume();
  }

  // What is said.

  private refuse(fault: RequestFault): void {
    this.state = "within";
    this.keepsAlive = false;
    this.held = NOTHING;
    writeWhole(this, this.hall.refuse(fault), false);
  }

  private answer(request: IncomingRequest, answer: Answer | Upgrade): void {
    if (this.state === "over") {
      if (!(answer instanceof Upgrade)) abandon(answer);
      return;
    }
    const isBodyless = request.head.method === "HEAD";
    if (this.hall.isClosing || this.mayWithhold(request) || isLate(answer)) this.keepsAlive = false;
    if (answer instanceof WholeAnswer) writeWhole(this, answer, isBodyless);
    else if (answer instanceof StreamAnswer) startStream(this, answer, isBodyless);
    else if (answer instanceof Upgrade) this.upgrade(answer);
    else void writeResponse(this, answer, isBodyless);
  }

  /** A client that was not told to go on may send its body all the same, or its next request instead. */
  private mayWithhold({ head }: IncomingRequest): boolean {
    return head.expectsContinue && this.incoming !== null && !this.incoming.isWanted;
  }

  private upgrade({ head, open }: Upgrade): void {
    this.write(head);
    this.request = null;
    this.protocol = open(this);
    const { held } = this;
    this.held = NOTHING;
    this.resume();
    if (held.length > 0) this.protocol.received(held);
  }

  /** Lines that say how the connection goes on. */
  get connectionLines(): string {
    const { dateLine } = this.hall;
    if (!this.keepsAlive) return `${dateLine}connection: close\r\n`;
    return this.request?.head.isHttp10 ? `${dateLine}connection: keep-alive\r\n` : dateLine;
  }

  /** HTTP/1.0 knows no chunks: there the end of the connection is the end of the answer. */
  endsByClosing(): boolean {
    if (!this.request?.head.isHttp10) return false;
    this.keepsAlive = false;
    return true;
  }

  write(bytes: Uint8Array, from = 0, to = bytes.length): void {
    if (this.state === "over") return;
    const wasKeeping = this.sender.bytes > 0;
    if (!this.sender.write(bytes, from, to) && !wasKeeping) this.sinceMs = this.hall.nowMs;
  }

  get bufferedBytes(): number {
    return this.sender.bytes;
  }

  room(): Promise<void> {
    return this.sender.room();
  }

  get isOver(): boolean {
    return this.state === "over";
  }

  whenLeft(leave: () => void): void {
    this.leave = leave;
  }

  /** The answer is complete. */
  finished(): void {
    this.leave = null;
    this.request = null;
    if (this.state === "over") return;
    this.incoming?.throwAway();
    this.sinceMs = this.hall.nowMs;
    this.goOn();
  }

  /** Serves again when the client has sent what nobody reads, and has taken what it asked for. */
  private goOn(): void {
    if (!this.keepsAlive) {
      this.incoming = null;
      this.held = NOTHING;
      this.end();
    } else if (this.incoming === null && this.sender.bytes <= AHEAD_BYTES_MAX) this.next();
  }

  /** In the middle of an answer: nobody can tell any more where it ends. */
  broken(): void {
    this.leave = null;
    this.terminate();
  }

  private next(): void {
    this.state = "between";
    this.sinceMs = this.hall.nowMs;
    const { held } = this;
    if (held.length === 0) {
      if (this.hall.isClosing) this.end();
      return;
    }
    this.held = NOTHING;
    this.resume();
    // Not within the answer to the one before: a client that sends thousands at once would fill the stack.
    queueMicrotask(() => {
      if (this.state === "between") this.received(held);
    });
  }

  end(): void {
    if (this.state === "over") return;
    if (this.sender.bytes > 0) this.endsWhenSent = true;
    else this.endNow();
  }

  private endNow(): void {
    if (this.state === "lingering") return;
    this.state = "lingering";
    this.hall.ended(this);
    this.sinceMs = this.hall.nowMs;
    this.resume();
    // Our side only: what the client still sends is read, and it closes when it has seen the end.
    this.socket.shutdown();
  }

  /** The process ends. One that has all it asked for is closed in order. */
  cut(): void {
    if (this.state === "lingering") this.socket.end();
    this.terminate();
  }

  terminate(): void {
    if (this.state === "over") return;
    this.socket.terminate();
    this.closed();
  }
}

/** Whoever sent too slowly goes on sending: nobody waits for the rest. */
function isLate(answer: Answer | Upgrade): boolean {
  return answer instanceof WholeAnswer && answer.status === 408;
}

/** The callbacks cost no closures: all sockets share them. */
export const CONNECTION_HANDLERS: SocketHandler<Connection> = {
  data: (socket, bytes) => socket.data.received(bytes),
  drain: (socket) => socket.data.drained(),
  close: (socket) => socket.data.closed(),
  error: (socket) => socket.data.terminate(),
};
