/**
 * One connection of a client: heads and bodies in, answers out, one request after the other. A request that comes while
 * another is answered waits its turn.
 */

import { freeBytes } from "../wire/bytes.ts";
import { CHUNKED, CR } from "../wire/http-fields.ts";
import {
  type HttpBody,
  type HttpResponse,
  SharedAnswer,
  StreamedResponse,
  WholeResponse,
} from "../wire/http-message.ts";
import { HeadReader } from "./head-reader.ts";
import { IncomingBody, WholeBody } from "./incoming-body.ts";
import { IncomingRequest, Upgrade } from "./incoming-request.ts";
import { ReadAhead } from "./read-ahead.ts";
import { CONTINUE, HEAD_TIMEOUT, type RequestFault, RequestHead, skipEmptyLines } from "./request-head.ts";
import {
  abandonResponse,
  isTooLate,
  type ResponseWriter,
  startStream,
  writeResponse,
  writeShared,
  writeWhole,
} from "./response-writer.ts";
import type { ManagedConnection } from "./server-context.ts";
import { SocketSide } from "./socket-side.ts";
import type { SocketWriter, UpgradedProtocol } from "./socket-writer.ts";

/** Then a client that sends many requests at once lets everybody else have a turn. */
const IN_A_ROW_MAX = 64;
const NOTHING = Buffer.alloc(0);

export class ServerConnection extends SocketSide implements SocketWriter, ResponseWriter, ManagedConnection {
  private request: IncomingRequest | null = null;
  /** The body of the request under way, while it is still coming. */
  private incoming: IncomingBody | null = null;
  /** Once it was upgraded. */
  private protocol: UpgradedProtocol | null = null;
  /** A stream that is being sent. */
  private leave: (() => void) | null = null;
  /** Read and not yet understood: part of a head, or what comes before its turn. */
  private ahead: ReadAhead | null = null;
  private isHeadPartial = false;
  /** Whether what comes after the request may be another one. */
  private keepsAlive = true;
  private readonly heads = new HeadReader();
  /** Requests that were here when the one before them was answered. */
  private queuedCount = 0;
  /** For answers that are waited for, one at a time: made with the first. */
  private answered: ((answer: HttpResponse | Upgrade) => void) | null = null;
  private broke: ((thrown: unknown) => void) | null = null;

  // What the socket says.

  received(bytes: Buffer): void {
    if (this.state === "between")
      this.receivedHead(this.ahead === null ? bytes : this.joined(this.ahead, bytes));
    else if (this.state === "upgraded") this.protocol?.received(bytes);
    else if (this.incoming !== null) {
      this.receivedBody(this.incoming, bytes, 0);
      // Nobody waited for the rest of it: the answer is out already.
      if (this.state === "answered") this.goOn();
      else if (this.incoming?.isAhead) this.pause();
    } else if (this.keepsAlive) this.keepAhead(bytes);
    else freeBytes(bytes);
    if (this.ahead !== null || this.incoming !== null || this.isOccupying) this.account();
  }

  drained(): void {
    this.sinceMs = this.hall.nowMs;
    if (this.state === "over" || !this.sender.flush()) return;
    if (this.state === "ending") this.endNow();
    else if (this.state === "upgraded") this.protocol?.drained();
    else if (this.state === "answered") this.goOn();
    this.account();
  }

  closed(): void {
    if (this.state === "over") return;
    this.state = "over";
    this.hall.left(this);
    this.incoming?.fail();
    try {
      this.leave?.();
      this.protocol?.closed();
    } catch (thrown) {
      this.hall.fault(thrown);
    }
    this.sender.drop();
    this.leaving?.abort();
    this.request = null;
    this.incoming = null;
    this.dropAhead();
    this.account();
  }

  /** Something was thrown on its way: no client waits for what will never come. */
  failed(thrown: unknown): void {
    this.hall.fault(thrown);
    this.terminate();
  }

  look(nowMs: number): void {
    if (this.state === "upgraded") return;
    const { headMs, idleMs, firstByteMs, unaskedMs, lingerMs, stallMs } = this.hall.limits;
    const ms = nowMs - this.sinceMs;
    if (this.sender.bytes > 0) {
      if (ms > stallMs) this.terminate();
    } else if (this.state === "answered" || this.state === "lingering") {
      if (ms > lingerMs) this.terminate();
    } else if (this.state === "within") {
      // While it is paused nobody sees its client leave.
      if (ms > unaskedMs && this.isPaused) this.discardUnread();
    } else if (this.state === "between") {
      const isDue = ms > (this.isHeadPartial ? headMs : this.trust === "silent" ? firstByteMs : idleMs);
      if (isDue && this.isHeadPartial) this.refuse(HEAD_TIMEOUT);
      else if (isDue) this.end();
    }
    this.account();
  }

  retire(): void {
    if (this.state === "between") this.end();
  }

  // What it occupies of memory, and what it gives back.

  /** The bodies of authenticated clients have bounds of their own once they are asked for. */
  protected get unreadBytes(): number {
    const { ahead, incoming } = this;
    const bytes = ahead === null ? 0 : ahead.occupiedBytes;
    const isCounted = incoming !== null && (this.trust !== "authenticated" || incoming.isUnasked);
    return isCounted ? bytes + incoming.occupiedBytes : bytes;
  }

  yieldBytes(): void {
    if (this.trust !== "authenticated") this.terminate();
    else this.discardUnread();
  }

  /** Requests behind the one under way are read no more: their client sends them again on another connection. */
  private discardUnread(): void {
    if (this.incoming?.isUnasked) this.incoming.throwAway();
    if (this.ahead !== null) {
      this.dropAhead();
      this.keepsAlive = false;
      this.resume();
      if (this.state === "between" || this.state === "queued") this.end();
    }
    this.account();
  }

  private dropAhead(): void {
    this.ahead?.release();
    this.ahead = null;
  }

  // What is heard.

  private joined(ahead: ReadAhead, bytes: Buffer): Buffer {
    const known = ahead.length;
    ahead.append(bytes);
    // A head that comes in crumbs is not parsed for each.
    if (this.isHeadPartial && ahead.length <= this.hall.limits.headBytesMax && !ahead.mayEndHead(known)) {
      return NOTHING;
    }
    this.ahead = null;
    return ahead.take();
  }

  private receivedHead(bytes: Buffer): void {
    const from = skipEmptyLines(bytes);
    // Half of an empty line is nothing yet.
    const isHalfLine = from + 1 === bytes.length && bytes[from] === CR;
    if (isHalfLine) this.ahead = new ReadAhead(bytes.subarray(from));
    if (isHalfLine || from === bytes.length) return;
    const head = this.heads.read(bytes, from, this.hall.limits.headBytesMax);
    if (head === null) {
      if (!this.isHeadPartial) this.sinceMs = this.hall.nowMs;
      this.isHeadPartial = true;
      this.ahead = new ReadAhead(from === 0 ? bytes : bytes.subarray(from));
    } else if (head instanceof RequestHead) {
      this.isHeadPartial = false;
      this.begin(head, bytes);
    } else this.refuse(head);
  }

  private begin(head: RequestHead, bytes: Buffer): void {
    this.state = "within";
    if (this.trust === "silent") this.trust = "anonymous";
    this.sinceMs = this.hall.nowMs;
    this.keepsAlive = head.asked.keepsAlive;
    const { framing, bodyAt } = head;
    const bodyTo = bodyAt + framing;
    if (framing !== CHUNKED && bodyTo <= bytes.length) {
      if (bodyTo < bytes.length) this.keepAhead(bytes.subarray(bodyTo));
      this.serve(head, framing === 0 ? null : new WholeBody(bytes, bodyAt, bodyTo));
      return;
    }
    const body = new IncomingBody(framing, this);
    this.incoming = body;
    this.receivedBody(body, bytes, bodyAt);
    this.serve(head, body);
    // Not before: whoever asks for it at once takes all that comes.
    if (this.incoming?.isAhead) this.pause();
  }

  private serve(head: RequestHead, body: HttpBody | null): void {
    this.request = new IncomingRequest(this, head, body);
    const answer = this.hall.serve(this.request);
    if (answer instanceof Promise) {
      this.answered ??= this.answer.bind(this);
      this.broke ??= this.failed.bind(this);
      answer.then(this.answered, this.broke);
    } else this.answer(answer);
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
    if (this.ahead === null) this.ahead = new ReadAhead(bytes);
    else this.ahead.append(bytes);
    if (this.isFarAhead) this.pause();
  }

  /** What comes next had better wait in the network: for a turn, for the requests before it, or for a reader. */
  private get isFarAhead(): boolean {
    if (this.state === "queued" || this.incoming?.isAhead === true) return true;
    return this.ahead !== null && this.ahead.length > this.hall.limits.aheadBytesMax;
  }

  // A body's source.

  wanted(): void {
    if (this.request?.head.asked.expectsContinue) this.write(CONTINUE);
  }

  // What is said.

  private refuse(fault: RequestFault): void {
    this.state = "within";
    this.keepsAlive = false;
    this.ahead = null;
    writeWhole(this, this.hall.refuse(fault), false);
  }

  /** What is thrown ends here: nobody above would hear of it. */
  private answer(answer: HttpResponse | Upgrade): void {
    try {
      if (this.request === null) abandonResponse(answer);
      else this.say(this.request, answer);
    } catch (thrown) {
      this.failed(thrown);
    }
  }

  private say(request: IncomingRequest, answer: HttpResponse | Upgrade): void {
    const isBodyless = request.method === "HEAD";
    // A client that was not told to go on may send its body all the same, or its next request instead.
    const mayWithhold = request.head.asked.expectsContinue && this.incoming?.isWanted === false;
    if (mayWithhold || this.hall.isClosing || isTooLate(answer)) this.keepsAlive = false;
    this.incoming?.throwAway();
    if (answer instanceof WholeResponse) writeWhole(this, answer, isBodyless);
    else if (answer instanceof StreamedResponse) startStream(this, answer, isBodyless);
    else if (answer instanceof SharedAnswer) writeShared(this, answer, isBodyless);
    else if (answer instanceof Upgrade) this.upgrade(request, answer);
    else void writeResponse(this, answer, isBodyless);
  }

  private upgrade(request: IncomingRequest, { head, open }: Upgrade): void {
    // Where it ends and the other protocol begins would depend on how much of it is here.
    if (request.head.framing !== 0) {
      this.refuse({ kind: "malformed", reason: "a change of protocol with a body" });
      return;
    }
    this.write(head);
    this.request = null;
    this.state = "upgraded";
    this.heads.forget();
    this.protocol = open(this);
    const { ahead } = this;
    this.ahead = null;
    this.resume();
    if (ahead !== null) this.protocol.received(ahead.take());
  }

  /** Lines that say how the connection goes on. */
  get connectionLines(): string {
    const { dateLine } = this.hall;
    if (!this.keepsAlive) return `${dateLine}connection: close\r\n`;
    return this.request?.head.asked.isHttp10 ? `${dateLine}connection: keep-alive\r\n` : dateLine;
  }

  /** HTTP/1.0 knows no chunks: there the end of the connection is the end of the answer. */
  endsByClosing(): boolean {
    if (!this.request?.head.asked.isHttp10) return false;
    this.keepsAlive = false;
    return true;
  }

  whenLeft(leave: () => void): void {
    this.leave = leave;
  }

  /** The answer is complete. */
  finished(): void {
    this.leave = null;
    this.request = null;
    if (this.state === "over") return;
    this.state = "answered";
    this.sinceMs = this.hall.nowMs;
    this.goOn();
  }

  /** Serves again when the client has sent what nobody reads, and has taken what it asked for. */
  private goOn(): void {
    const { aheadBytesMax } = this.hall.limits;
    if (this.sender.postedBytes > aheadBytesMax) this.sender.hurry();
    if (this.keepsAlive && (this.incoming !== null || this.sender.bytes > aheadBytesMax)) return;
    this.sinceMs = this.hall.nowMs;
    if (!this.keepsAlive || (this.ahead === null && this.hall.isClosing)) this.end();
    else if (this.ahead !== null) this.queue();
    else this.state = "between";
  }

  private queue(): void {
    this.state = "queued";
    this.queuedCount++;
    const read = () => this.readAhead();
    // Not within the answer to the one before: a client that sends thousands at once would fill the stack.
    if (this.trust !== "authenticated") this.hall.strangerTurns.add(read);
    else if (this.queuedCount % IN_A_ROW_MAX !== 0) queueMicrotask(read);
    else {
      this.pause();
      setImmediate(read);
    }
  }

  private readAhead(): void {
    const { ahead } = this;
    if (this.state !== "queued" || ahead === null) return;
    this.ahead = null;
    this.state = "between";
    try {
      this.receivedHead(ahead.take());
      if (!this.isFarAhead) this.resume();
      this.account();
    } catch (thrown) {
      this.failed(thrown);
    }
  }

  end(): void {
    if (this.state === "ending" || this.state === "lingering" || this.state === "over") return;
    this.state = "ending";
    this.keepsAlive = false;
    this.incoming = null;
    this.dropAhead();
    this.resume();
    this.sender.hurry();
    if (this.sender.bytes === 0) this.endNow();
  }

  private endNow(): void {
    this.state = "lingering";
    this.hall.ended(this);
    this.sinceMs = this.hall.nowMs;
    // Our side only: what the client still sends is read, and it closes when it has seen the end.
    this.socket.shutdown();
  }

  /** One that has all it asked for is closed in order. */
  cut(): void {
    if (this.state === "lingering") this.socket.end();
    this.terminate();
  }

  terminate(): void {
    if (this.state === "over") return;
    // Answers that were given are not taken back.
    this.sender.hurry();
    this.socket.terminate();
    this.closed();
  }
}
