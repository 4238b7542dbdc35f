/**
 * One WebSocket connection: its lanes of turns, each sequential, and its remembered conversations. Nearly all
 * connections are idle nearly all of the time, so the state that only a turn needs is created with the first turn.
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
  /** Longer frames are parsed in a thread. */
  readonly inspectInThreadAboveBytes: number;
}

/** State that all connections share. */
export interface SessionContext {
  readonly gateway: Gateway;
  readonly limits: SocketLimits;
  readonly memories: MemoryPool;
  readonly waitingBytes: ByteBudget;
  readonly inspector: FrameInspector;
  readonly newId: NewId;
}

/** Why a connection accepts no more turns, and how it is closed after its last turn. */
export interface Retirement {
  readonly error: ApiError;
  readonly code: number;
  /** Also send the error to a client without a turn in flight. */
  readonly isTold: boolean;
}

/** State that an idle connection does not need. */
interface ActiveState {
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
  private work: ActiveState | null = null;
  private retirement: Retirement | null = null;
  private rate: MessageRate | null = null;
  private frames: FrameReading | null = null;

  constructor(context: SessionContext, digest: string, headers: Headers) {
    this.around = context;
    this.digest = digest;
    this.headers = headers;
    this.line = new BoundedOutput(context.limits.socketBufferedBytesMax);
    this.openedMs = context.gateway.clock.monotonicMs();
  }

  opened(socket: SocketOutput): void {
    this.line.open(socket);
  }

  /** The connection is closed, by either side. */
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
    const verdict = this.rate.take(gateway.clock.monotonicMs());
    if (verdict === "abuse") {
      this.expel(messageRateError("messages", max));
      return;
    }
    // A message above the limit is parsed as well, so that the error can name its lane.
    this.frames ??= this.openFrames();
    if (!this.frames.read(kind, bytes, (frame) => this.handle(frame, verdict))) {
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

  private handle(frame: ClientFrame, verdict: "taken" | "too_many"): void {
    if (!this.line.isOpen) return;
    const max = this.around.limits.socketMessagesPerSecondMax;
    if (verdict === "too_many") this.complain(messageRateError("messages", max), frame.streamId);
    else if (frame.kind === "bad") this.complain(frame.error, frame.streamId);
    else if (frame.kind === "steer") this.line.tell(steerFailed(frame.previousId, frame.input));
    else this.queue(frame);
  }

  /** The client has read buffered bytes. */
  drained(): void {
    this.line.drained();
  }

  /** Accepts no more turns. Turns in flight finish first. */
  retire(retirement: Retirement): void {
    if (this.retirement !== null) return;
    this.retirement = retirement;
    const waiting = this.work?.lanes.clear() ?? [];
    for (const { frame } of waiting) this.complain(retirement.error, frame.streamId);
    this.closeIfIdle();
  }

  /** Sends the error and closes the connection at once, even in the middle of a response. */
  expel(error: ApiError): void {
    if (!this.line.isOpen) return;
    this.line.sendText(errorFrame(error, this.around.newId("req"), null));
    this.close(POLICY_VIOLATED, error.code);
  }

  terminate(): void {
    this.line.terminate();
  }

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

  begun(turn: Turn, relay: Relay, context: RequestContext<Turn>): void {
    const { limits } = this.around;
    if (isCodex(turn.headers)) this.greetCodex(turn, context);
    relay.flowTo(
      new FrameSink({
        outlet: this.line,
        streamId: turn.frame.streamId,
        requestId: turn.requestId,
        upstreamRequestId: context.record.trace.upstreamRequestId,
        bytesMax: limits.socketMemoryBytesMax,
        depthMax: limits.jsonDepthMax,
        isStored: context.request.keepsResponse,
        ended: (events) => this.ended(turn, events, context.request.readsKept),
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

  // Turn lifecycle.

  private queue(frame: CreateFrame): void {
    const work = this.workOf();
    const rejection =
      this.retirement?.error ??
      this.tooLarge(frame) ??
      this.tooManyWarmUps(work, frame) ??
      work.lanes.add(frame, this.turnsMax());
    if (rejection === null) this.startNext(work);
    else this.complain(rejection, frame.streamId);
  }

  private tooLarge({ bytes }: CreateFrame): ApiError | null {
    const { jsonBodyBytesMax } = this.around.limits;
    if (bytes.length <= jsonBodyBytesMax) return null;
    const mebibytes = Math.floor(jsonBodyBytesMax / 2 ** 20);
    return new ApiError("request_too_large", `The message is larger than ${mebibytes} MiB. Send less.`);
  }

  private tooManyWarmUps({ warmUps }: ActiveState, { generates }: CreateFrame): ApiError | null {
    const { gateway, limits } = this.around;
    if (generates || warmUps.take(gateway.clock.monotonicMs()) === "taken") return null;
    return messageRateError("warm-ups", limits.socketWarmUpsPerSecondMax);
  }

  private workOf(): ActiveState {
    const { memories, waitingBytes, limits } = this.around;
    this.work ??= {
      memory: memories.open(this.digest),
      lanes: new Lanes(limits, waitingBytes, this.digest),
      warmUps: new MessageRate(limits.socketWarmUpsPerSecondMax),
    };
    return this.work;
  }

  private startNext(work: ActiveState): void {
    for (;;) {
      const next = work.lanes.next(this.turnsMax());
      if (next === null) return;
      this.start(work, next);
    }
  }

  /** Additional turns above the key's or group's concurrency would only wait in the group's queue. */
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

  private start(work: ActiveState, { lane, frame }: WaitingTurn): void {
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

  private warmUp(work: ActiveState, turn: Turn): void {
    try {
      const result = answerWarmUp(this.around.gateway, turn, work.memory, this.around.limits);
      if (result instanceof Promise) {
        result.then(
          (warmUp) => this.warmedUp(work, turn, warmUp),
          (thrown: unknown) => this.warmUpFailed(turn, thrown),
        );
      } else this.warmedUp(work, turn, result);
    } catch (thrown) {
      this.warmUpFailed(turn, thrown);
    }
  }

  private warmedUp(work: ActiveState, turn: Turn, { kept, frames }: WarmUp): void {
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

  private ended(turn: Turn, events: SentEvents, readsKept: boolean): void {
    const { work } = this;
    if (work === null) return;
    if (events.kind === "failed") this.forgetFailed(turn);
    else {
      // What an upstream stores of a conversation is not known here, so a later turn cannot continue from it here.
      const { jsonDepthMax, socketMemoryBytesMax } = this.around.limits;
      const isComplete =
        events.kind === "response" && !readsKept && turn.frame.bytes.length <= socketMemoryBytesMax;
      const kept = isComplete ? keepAfter(turn.before, turn.frame, events, jsonDepthMax) : null;
      if (kept instanceof Promise) {
        // The lane stays occupied until the conversation is remembered.
        void this.keepLater(work, turn, kept).finally(() => this.finish(turn));
        return;
      }
      work.memory.keep(turn.lane.name, kept);
    }
    this.finish(turn);
  }

  private async keepLater(
    work: ActiveState,
    { lane }: Turn,
    keeping: Promise<StoredConversation>,
  ): Promise<void> {
    const conversation = await keeping;
    if (this.work === work) work.memory.keep(lane.name, conversation);
  }

  private say(turn: Turn, error: ApiError): void {
    this.forgetFailed(turn);
    this.line.tell(errorFrame(error, turn.requestId, turn.frame.streamId));
    // The key is no longer valid, so further turns would fail as well.
    if (error.status === 401) this.close(POLICY_VIOLATED, error.code);
  }

  /** A failed turn cannot be continued: the client has to send the conversation in full. */
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

  /** Detaches the output and ends all turns. */
  private letGo(): SocketOutput | null {
    const socket = this.line.letGo();
    this.work?.lanes.close();
    return socket;
  }
}
