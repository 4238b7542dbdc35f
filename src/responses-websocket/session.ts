/**
 * One connection: lanes of turns, each lane one turn after the other, and what they remember. Nearly all connections are
 * idle nearly all of the time, so whatever only a turn needs is made with the first one.
 */

import { ApiError, asApiError } from "../errors.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { handleModelRequest } from "../gateway/pipeline.ts";
import { isCodex } from "../gateway/request/codex-client.ts";
import type { RequestContext } from "../gateway/request-context.ts";
import type { Relay } from "../gateway/stream/relay.ts";
import { conversationName } from "../gateway/upstream/attempt.ts";
import type { NewId } from "../net/wire/clock.ts";
import { logFault } from "../observe/log.ts";
import type { ByteBudget } from "./byte-budget.ts";
import { type ClientFrame, type CreateFrame, type MessageKind, readFrameMetadata } from "./client-frame.ts";
import { rateLimitsFrame, turnStateFrame } from "./codex.ts";
import { errorFrame } from "./error-frame.ts";
import type { FrameInspector } from "./frame-inspector.ts";
import { FrameReading } from "./frame-reading.ts";
import { FrameSink, type SentEvents } from "./frame-sink.ts";
import { type LaneLimits, Lanes, tooManyTurns, type WaitingTurn } from "./lanes.ts";
import { BoundedOutput, type SocketOutput } from "./line.ts";
import type { ConversationMemory, MemoryPool, StoredConversation } from "./memory.ts";
import { MessageRate, messageRateError } from "./message-rate.ts";
import { steerFailed } from "./steer.ts";
import { RESPONSES, SOCKET, Turn, type TurnHost } from "./turn.ts";
import { buildTurnBody, keepAfter, type TurnBody } from "./turn-body.ts";
import { turnHeaders } from "./upgrade-headers.ts";
import { answerWarmUp, type WarmUp, type WarmUpLimits } from "./warm-up.ts";

export interface SocketLimits extends LaneLimits, WarmUpLimits {
  readonly socketMessagesPerSecondMax: number;
  readonly socketWarmUpsPerSecondMax: number;
  readonly socketTurnsMax: number;
  readonly socketMemoryBytesMax: number;
  readonly socketBufferedBytesMax: number;
  /** Longer frames are read in a thread. */
  readonly inspectInThreadAboveBytes: number;
}

/** What all connections share. */
export interface SessionContext {
  readonly gateway: Gateway;
  readonly limits: SocketLimits;
  readonly memories: MemoryPool;
  readonly waitingBytes: ByteBudget;
  readonly inspector: FrameInspector;
  readonly newId: NewId;
}

/** Why a connection takes no more turns, and how it is closed when the last one has ended. */
export interface Retirement {
  readonly error: ApiError;
  readonly code: number;
  /** A client that asks for nothing is told too. */
  readonly isTold: boolean;
}

/** Everything that an idle connection does without. */
interface Work {
  readonly memory: ConversationMemory;
  readonly lanes: Lanes;
  readonly warmUps: MessageRate;
}

const POLICY_VIOLATED = 1008;

export class Session implements TurnHost {
  readonly digest: string;
  readonly openedMs: number;
  private readonly around: SessionContext;
  private readonly headers: Headers;
  private readonly line: BoundedOutput;
  private work: Work | null = null;
  private retirement: Retirement | null = null;
  private rate: MessageRate | null = null;
  private frames: FrameReading | null = null;

  constructor(around: SessionContext, digest: string, headers: Headers) {
    this.around = around;
    this.digest = digest;
    this.headers = headers;
    this.line = new BoundedOutput(around.limits.socketBufferedBytesMax);
    this.openedMs = around.gateway.clock.monotonicMs();
  }

  opened(wire: SocketOutput): void {
    this.line.open(wire);
  }

  /** The connection is gone, whoever ended it. */
  closed(): void {
    this.letGo();
    this.work?.memory.clear();
    this.work = null;
  }

  received(kind: MessageKind, bytes: Uint8Array): void {
    if (!this.line.isOpen) return;
    const { gateway, limits } = this.around;
    const max = limits.socketMessagesPerSecondMax;
    this.rate ??= new MessageRate(max);
    const taken = this.rate.take(gateway.clock.monotonicMs());
    if (taken === "abuse") {
      this.expel(messageRateError("messages", max));
      return;
    }
    // Also one too many is read: its client is told on which lane it was.
    this.frames ??= this.openFrames();
    if (!this.frames.read(kind, bytes, (frame) => this.handle(frame, taken))) {
      this.complain(tooManyTurns(), null);
    }
  }

  private openFrames(): FrameReading {
    const { gateway, limits, waitingBytes, inspector, newId } = this.around;
    return new FrameReading({
      inspector,
      waitingBytes,
      key: this.digest,
      depthMax: limits.jsonDepthMax,
      inspectInThreadAboveBytes: limits.inspectInThreadAboveBytes,
      failed: (thrown) => {
        logFault(gateway.log, newId("req"), thrown);
        this.complain(asApiError(thrown), null);
      },
    });
  }

  private handle(frame: ClientFrame, taken: "taken" | "too_many"): void {
    if (!this.line.isOpen) return;
    const max = this.around.limits.socketMessagesPerSecondMax;
    if (taken === "too_many") this.complain(messageRateError("messages", max), frame.streamId);
    else if (frame.kind === "bad") this.complain(frame.error, frame.streamId);
    else if (frame.kind === "steer") this.line.tell(steerFailed(frame.previousId, frame.input));
    else this.queue(frame);
  }

  /** The client takes again what is sent to it. */
  drained(): void {
    this.line.drained();
  }

  /** Takes no more turns; those under way end first. */
  retire(retirement: Retirement): void {
    if (this.retirement !== null) return;
    this.retirement = retirement;
    const waiting = this.work?.lanes.clear() ?? [];
    for (const { frame } of waiting) this.complain(retirement.error, frame.streamId);
    this.closeIfIdle();
  }

  /** Ends it at once, in the middle of whatever is said. */
  expel(error: ApiError): void {
    if (!this.line.isOpen) return;
    this.line.sendText(errorFrame(error, this.around.newId("req"), null));
    this.close(POLICY_VIOLATED, error.code);
  }

  terminate(): void {
    this.line.terminate();
  }

  // What its turns need.

  get address(): string {
    return this.line.address;
  }

  bodyOf(turn: Turn): Uint8Array | Promise<Uint8Array> {
    const { frame } = turn;
    turn.before = frame.previousId === null ? null : (this.work?.memory.find(frame.previousId) ?? null);
    const built = buildTurnBody(frame, turn.before, turn.metadata, this.around.limits);
    const take = ({ bytes, heard }: TurnBody) => {
      turn.heard = heard;
      return bytes;
    };
    return built instanceof Promise ? built.then(take) : take(built);
  }

  begun(turn: Turn, relay: Relay, passage: RequestContext<Turn>): void {
    const { limits } = this.around;
    if (isCodex(turn.headers)) this.greetCodex(turn, passage);
    relay.flowTo(
      new FrameSink({
        outlet: this.line,
        streamId: turn.frame.streamId,
        requestId: turn.requestId,
        upstreamRequestId: passage.record.trace.upstreamRequestId,
        bytesMax: limits.socketMemoryBytesMax,
        depthMax: limits.jsonDepthMax,
        isStored: passage.request.keepsResponse,
        ended: (said) => this.ended(turn, said, passage.request.readsKept),
      }),
    );
  }

  refused(turn: Turn, error: ApiError): void {
    this.say(turn, error);
    this.finish(turn);
  }

  cutOff(): void {
    this.terminate();
  }

  // How turns come and go.

  private queue(frame: CreateFrame): void {
    const work = this.workOf();
    const refusal =
      this.retirement?.error ??
      this.tooLarge(frame) ??
      this.tooManyWarmUps(work, frame) ??
      work.lanes.add(frame, this.turnsMax());
    if (refusal === null) this.startNext(work);
    else this.complain(refusal, frame.streamId);
  }

  private tooLarge({ bytes }: CreateFrame): ApiError | null {
    const { jsonBodyBytesMax } = this.around.limits;
    if (bytes.length <= jsonBodyBytesMax) return null;
    const mebibytes = Math.floor(jsonBodyBytesMax / 2 ** 20);
    return new ApiError("request_too_large", `The message is larger than ${mebibytes} MiB. Send less.`);
  }

  private tooManyWarmUps({ warmUps }: Work, { generates }: CreateFrame): ApiError | null {
    const { gateway, limits } = this.around;
    if (generates || warmUps.take(gateway.clock.monotonicMs()) === "taken") return null;
    return messageRateError("warm-ups", limits.socketWarmUpsPerSecondMax);
  }

  private workOf(): Work {
    const { memories, waitingBytes, limits } = this.around;
    this.work ??= {
      memory: memories.open(this.digest),
      lanes: new Lanes(limits, waitingBytes, this.digest),
      warmUps: new MessageRate(limits.socketWarmUpsPerSecondMax),
    };
    return this.work;
  }

  private startNext(work: Work): void {
    for (;;) {
      const next = work.lanes.next(this.turnsMax());
      if (next === null) return;
      this.start(work, next);
    }
  }

  /** More turns than its key may have at once would only wait in the group's queue. */
  private turnsMax(): number {
    const { gateway, limits } = this.around;
    const key = gateway.auth.keys.find(this.digest, gateway.auth.nowMs());
    const group = key && gateway.policy.snapshot().groups.get(key.groupId);
    return Math.min(
      limits.socketTurnsMax,
      key?.limits.concurrency ?? Number.POSITIVE_INFINITY,
      group?.limits.concurrency ?? Number.POSITIVE_INFINITY,
    );
  }

  private start(work: Work, { lane, frame }: WaitingTurn): void {
    const { gateway, limits, newId } = this.around;
    const metadata = readFrameMetadata(frame, limits.jsonDepthMax);
    const turn = new Turn({
      host: this,
      lane,
      frame,
      requestId: newId("req"),
      startedMs: gateway.clock.monotonicMs(),
      headers: turnHeaders(this.headers, metadata),
      metadata,
    });
    if (!frame.generates) {
      this.warmUp(work, turn);
      return;
    }
    work.lanes.begin(turn);
    handleModelRequest(gateway, turn, RESPONSES, SOCKET).catch((thrown: unknown) => {
      logFault(gateway.log, turn.requestId, thrown);
      this.refused(turn, asApiError(thrown));
    });
  }

  private warmUp(work: Work, turn: Turn): void {
    try {
      const answered = answerWarmUp(this.around.gateway, turn, work.memory, this.around.limits);
      if (answered instanceof Promise) {
        answered.then(
          (warmUp) => this.warmedUp(work, turn, warmUp),
          (thrown: unknown) => this.warmUpFailed(turn, thrown),
        );
      } else this.warmedUp(work, turn, answered);
    } catch (thrown) {
      this.warmUpFailed(turn, thrown);
    }
  }

  private warmedUp(work: Work, turn: Turn, { kept, frames }: WarmUp): void {
    // The connection may have closed while a long body was inspected.
    if (this.work !== work) return;
    if (kept instanceof Promise) {
      void this.keepLater(work, turn, kept).then(() => this.tellAll(frames));
      return;
    }
    work.memory.keep(turn.lane.name, kept);
    this.tellAll(frames);
  }

  private tellAll(frames: readonly string[]): void {
    for (const text of frames) this.line.tell(text);
  }

  private warmUpFailed(turn: Turn, thrown: unknown): void {
    const error = asApiError(thrown);
    if (error.status === 500) logFault(this.around.gateway.log, turn.requestId, thrown);
    this.say(turn, error);
  }

  private ended(turn: Turn, said: SentEvents, readsKept: boolean): void {
    const { work } = this;
    if (work === null) return;
    if (said.kind === "failed") this.forgetFailed(turn);
    else {
      // What an upstream keeps of a conversation is not known here, so no turn can continue from it here.
      const { jsonDepthMax, socketMemoryBytesMax } = this.around.limits;
      const isKnown =
        said.kind === "response" && !readsKept && turn.frame.bytes.length <= socketMemoryBytesMax;
      const kept = isKnown ? keepAfter(turn.before, turn.frame, said, jsonDepthMax) : null;
      if (kept instanceof Promise) {
        // The lane stays taken until the conversation is remembered.
        void this.keepLater(work, turn, kept).finally(() => this.finish(turn));
        return;
      }
      work.memory.keep(turn.lane.name, kept);
    }
    this.finish(turn);
  }

  private async keepLater(work: Work, { lane }: Turn, keeping: Promise<StoredConversation>): Promise<void> {
    const kept = await keeping;
    if (this.work === work) work.memory.keep(lane.name, kept);
  }

  private say(turn: Turn, error: ApiError): void {
    this.forgetFailed(turn);
    this.line.tell(errorFrame(error, turn.requestId, turn.frame.streamId));
    // The key no longer works, so there is nothing to wait for.
    if (error.status === 401) this.close(POLICY_VIOLATED, error.code);
  }

  /** A turn that failed leaves nothing to go on from: its client sends the conversation in full. */
  private forgetFailed({ frame }: Turn): void {
    if (frame.previousId !== null) this.work?.memory.forget(frame.previousId);
  }

  private finish(turn: Turn): void {
    const { work } = this;
    if (work === null || !work.lanes.end(turn)) return;
    this.startNext(work);
    this.closeIfIdle();
  }

  private greetCodex({ headers, metadata }: Turn, { gateway, caller, request }: RequestContext<Turn>): void {
    const limits = rateLimitsFrame(gateway.limiter, caller, gateway.clock.nowMs());
    if (limits !== null) this.line.sendText(limits);
    if (metadata !== null && metadata.conversation !== null) return;
    const conversation = conversationName(headers, request);
    if (conversation !== null) this.line.sendText(turnStateFrame(conversation));
  }

  // How it is bounded, and how it ends.

  private complain(error: ApiError, streamId: string | null): void {
    this.line.tell(errorFrame(error, this.around.newId("req"), streamId));
  }

  private closeIfIdle(): void {
    const { retirement, work, line } = this;
    if (retirement === null || !line.isOpen) return;
    if (work !== null && !work.lanes.isIdle) return;
    if (retirement.isTold) line.sendText(errorFrame(retirement.error, this.around.newId("req"), null));
    this.close(retirement.code, retirement.error.code);
  }

  private close(code: number, reason: string): void {
    this.letGo()?.close(code, reason);
  }

  /** Nobody hears what its turns say any more. */
  private letGo(): SocketOutput | null {
    const wire = this.line.letGo();
    this.work?.lanes.close();
    return wire;
  }
}
