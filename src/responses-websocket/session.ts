/**
 * One WebSocket connection: its lanes of turns, each sequential, and its remembered conversations. Nearly all
 * connections are idle nearly all of the time, so the state that only a turn needs is created with the first turn.
 */

import { isPending, type MaybePromise, whenReady } from "../base/maybe-promise.ts";
import { type ApiError, asApiError } from "../errors.ts";
import { isCodex } from "../gateway/request/codex-client.ts";
import type { ReservedRequest } from "../gateway/request-context.ts";
import type { Relay } from "../gateway/stream/relay.ts";
import { nameConversation } from "../gateway/upstream/dispatch-request.ts";
import { logFault } from "../observe/log.ts";
import { RESPONSES } from "../protocols/responses/responses-endpoints.ts";
import { BoundedOutput, type SocketOutput } from "./bounded-output.ts";
import { type ClientFrame, type CreateFrame, type MessageKind, readFrameMetadata } from "./client-frame.ts";
import { rateLimitsFrame, turnStateFrame } from "./codex.ts";
import { errorFrame } from "./error-frame.ts";
import { FrameReading } from "./frame-reading.ts";
import { FrameSink, type SentEvents } from "./frame-sink.ts";
import type { LaneMemory, RememberedTurns } from "./lane-memory.ts";
import { Lanes, tooManyTurnsError, type WaitingTurn } from "./lanes.ts";
import { MessageRate, messageRateError } from "./message-rate.ts";
import type { Retirement, SessionContext } from "./session-context.ts";
import { steerFailed } from "./steer-reply.ts";
import { type AdmittedClient, Turn, type TurnHost } from "./turn.ts";
import { buildTurnBody, storeAfter, type TurnBody } from "./turn-body.ts";
import { computeTurnsMax, findSizeError } from "./turn-limits.ts";
import { turnHeaders } from "./upgrade-headers.ts";
import { respondToWarmUp, type WarmUp } from "./warm-up.ts";

/** State that an idle connection does not need. */
interface ActiveState {
  readonly memory: LaneMemory;
  readonly lanes: Lanes;
  readonly warmUps: MessageRate;
}

const POLICY_VIOLATED = 1008;

export class Session implements TurnHost {
  readonly digest: string;
  readonly networkAddress: string | null;
  readonly openedMs: number;
  readonly #context: SessionContext;
  readonly #headers: Headers;
  readonly #output: BoundedOutput;
  #active: ActiveState | null = null;
  #retirement: Retirement | null = null;
  #rate: MessageRate | null = null;
  #frames: FrameReading | null = null;

  constructor(context: SessionContext, { digest, networkAddress }: AdmittedClient, headers: Headers) {
    this.#context = context;
    this.digest = digest;
    this.networkAddress = networkAddress;
    this.#headers = headers;
    this.#output = new BoundedOutput(context.limits.socketBufferedBytesMax);
    this.openedMs = context.gateway.clock.monotonicMs();
  }

  onOpen(socket: SocketOutput): void {
    this.#output.open(socket);
  }

  /** The connection is closed, by either side. */
  onClose(): void {
    this.#detach();
    this.#active?.memory.clear();
    this.#active = null;
  }

  onMessage(kind: MessageKind, bytes: Uint8Array): void {
    if (!this.#output.isOpen) return;
    const { gateway, limits } = this.#context;
    const max = limits.socketMessagesPerSecondMax;
    this.#rate ??= new MessageRate(max);
    const verdict = this.#rate.take(gateway.clock.monotonicMs());
    if (verdict === "abuse") {
      this.closeWithError(messageRateError("messages", max));
      return;
    }
    // A message above the limit is parsed as well, so that the error can name its lane.
    this.#frames ??= this.#openFrames();
    if (!this.#frames.read(kind, bytes, (frame) => this.#handle(frame, verdict))) {
      this.#sendError(tooManyTurnsError(), null);
    }
  }

  #openFrames(): FrameReading {
    const { gateway, limits, waitingBytes, inspector, newId } = this.#context;
    return new FrameReading({
      inspector,
      waitingBytes,
      key: this.digest,
      depthMax: limits.jsonDepthMax,
      inspectInThreadAboveBytes: limits.inspectInThreadAboveBytes,
      onFailure: (thrown) => {
        logFault(gateway.log, { request_id: newId("req") }, thrown);
        this.#sendError(asApiError(thrown), null);
      },
    });
  }

  #handle(frame: ClientFrame, verdict: "taken" | "too_many"): void {
    if (!this.#output.isOpen) return;
    const max = this.#context.limits.socketMessagesPerSecondMax;
    if (verdict === "too_many") this.#sendError(messageRateError("messages", max), frame.streamId);
    else if (frame.kind === "bad") this.#sendError(frame.error, frame.streamId);
    else if (frame.kind === "steer") this.#output.sendOutsideTurn(steerFailed(frame.previousId, frame.input));
    else this.#queue(frame);
  }

  /** The client has read buffered bytes. */
  onDrain(): void {
    this.#output.onDrain();
  }

  /** Accepts no more turns. Turns in flight finish first. */
  retire(retirement: Retirement): void {
    if (this.#retirement !== null) return;
    this.#retirement = retirement;
    const waiting = this.#active?.lanes.clear() ?? [];
    for (const { frame } of waiting) this.#sendError(retirement.error, frame.streamId);
    this.#closeIfIdle();
  }

  /** Sends the error and closes the connection at once, even in the middle of a response. */
  closeWithError(error: ApiError): void {
    if (!this.#output.isOpen) return;
    this.#output.sendText(errorFrame(error, this.#context.newId("req"), null));
    this.#close(POLICY_VIOLATED, error.code);
  }

  terminate(): void {
    this.#output.terminate();
  }

  get address(): string {
    return this.#output.address;
  }

  buildBody(turn: Turn): MaybePromise<Uint8Array> {
    const { frame } = turn;
    turn.rememberedTurns =
      frame.previousId === null ? null : (this.#active?.memory.find(frame.previousId) ?? null);
    const built = buildTurnBody(frame, turn.rememberedTurns, turn.metadata, this.#context.limits);
    const take = ({ bytes, knownPrefix }: TurnBody) => {
      turn.knownPrefix = knownPrefix;
      return bytes;
    };
    return whenReady(built, take);
  }

  onResponseStart(turn: Turn, relay: Relay, context: ReservedRequest<Turn>): void {
    const { limits } = this.#context;
    if (isCodex(turn.headers)) this.#sendCodexFrames(turn, context);
    relay.flowTo(
      new FrameSink({
        output: this.#output,
        source: relay,
        streamId: turn.frame.streamId,
        requestId: turn.requestId,
        upstreamRequestId: context.trace.upstreamRequestId,
        bytesMax: limits.socketMemoryBytesMax,
        depthMax: limits.jsonDepthMax,
        isStored: context.request.storesResponse,
        onEnd: (events) => this.#endTurn(turn, events, context.request.readsStored),
      }),
    );
  }

  onRejected(turn: Turn, error: ApiError): void {
    this.#sendTurnError(turn, error);
    this.#finish(turn);
  }

  disconnect(): void {
    this.terminate();
  }

  // Turn lifecycle.

  #queue(frame: CreateFrame): void {
    const work = this.#openActive();
    const rejection =
      this.#retirement?.error ??
      findSizeError(frame, this.#context.limits.jsonBodyBytesMax) ??
      this.#checkWarmUpRate(work, frame) ??
      work.lanes.add(frame, this.#turnsMax());
    if (rejection === null) this.#startNext(work);
    else this.#sendError(rejection, frame.streamId);
  }

  #checkWarmUpRate({ warmUps }: ActiveState, { generates }: CreateFrame): ApiError | null {
    const { gateway, limits } = this.#context;
    if (generates || warmUps.take(gateway.clock.monotonicMs()) === "taken") return null;
    return messageRateError("warm-ups", limits.socketWarmUpsPerSecondMax);
  }

  #openActive(): ActiveState {
    const { memories, waitingBytes, limits } = this.#context;
    this.#active ??= {
      memory: memories.open(this.digest),
      lanes: new Lanes(limits, waitingBytes, this.digest),
      warmUps: new MessageRate(limits.socketWarmUpsPerSecondMax),
    };
    return this.#active;
  }

  #startNext(work: ActiveState): void {
    for (;;) {
      const next = work.lanes.next(this.#turnsMax());
      if (next === null) return;
      this.#start(work, next);
    }
  }

  #turnsMax(): number {
    const { gateway, limits } = this.#context;
    return computeTurnsMax(gateway, this.digest, limits.socketTurnsMax);
  }

  #start(work: ActiveState, { lane, frame }: WaitingTurn): void {
    const { gateway, pipeline, limits, newId } = this.#context;
    const metadata = readFrameMetadata(frame, limits.jsonDepthMax);
    const turn = new Turn({
      host: this,
      lane,
      frame,
      requestId: newId("req"),
      startedMs: gateway.clock.monotonicMs(),
      headers: turnHeaders(this.#headers, metadata),
      metadata,
    });
    if (!frame.generates) {
      this.#warmUp(work, turn);
      return;
    }
    work.lanes.begin(turn);
    pipeline.handle(turn, RESPONSES).catch((thrown: unknown) => {
      logFault(gateway.log, { request_id: turn.requestId }, thrown);
      this.onRejected(turn, asApiError(thrown));
    });
  }

  #warmUp(work: ActiveState, turn: Turn): void {
    try {
      const result = respondToWarmUp(this.#context.gateway, turn, work.memory, this.#context.limits);
      if (isPending(result)) {
        result.then(
          (warmUp) => this.#finishWarmUp(work, turn, warmUp),
          (thrown: unknown) => this.#failWarmUp(turn, thrown),
        );
      } else this.#finishWarmUp(work, turn, result);
    } catch (thrown) {
      this.#failWarmUp(turn, thrown);
    }
  }

  #finishWarmUp(work: ActiveState, turn: Turn, { turns, frames }: WarmUp): void {
    // The connection may have closed while a long body was inspected.
    if (this.#active !== work) return;
    if (isPending(turns)) {
      void this.#rememberLater(work, turn, turns).then(() => this.#sendAll(frames));
      return;
    }
    work.memory.store(turn.lane.name, turns);
    this.#sendAll(frames);
  }

  #sendAll(frames: readonly string[]): void {
    for (const text of frames) this.#output.sendOutsideTurn(text);
  }

  #failWarmUp(turn: Turn, thrown: unknown): void {
    const error = asApiError(thrown);
    if (error.status === 500) logFault(this.#context.gateway.log, { request_id: turn.requestId }, thrown);
    this.#sendTurnError(turn, error);
  }

  #endTurn(turn: Turn, events: SentEvents, readsStored: boolean): void {
    const work = this.#active;
    if (work === null) return;
    if (events.kind === "failed") this.#forgetPrevious(turn);
    else {
      // What an upstream stores of a conversation is not known here, so a later turn cannot continue from it here.
      const { jsonDepthMax, socketMemoryBytesMax } = this.#context.limits;
      const isComplete =
        events.kind === "response" && !readsStored && turn.frame.bytes.length <= socketMemoryBytesMax;
      const kept = isComplete ? storeAfter(turn.rememberedTurns, turn.frame, events, jsonDepthMax) : null;
      if (isPending(kept)) {
        // The lane stays occupied until the conversation is remembered.
        void this.#rememberLater(work, turn, kept).finally(() => this.#finish(turn));
        return;
      }
      work.memory.store(turn.lane.name, kept);
    }
    this.#finish(turn);
  }

  async #rememberLater(work: ActiveState, { lane }: Turn, storing: Promise<RememberedTurns>): Promise<void> {
    const turns = await storing;
    if (this.#active === work) work.memory.store(lane.name, turns);
  }

  #sendTurnError(turn: Turn, error: ApiError): void {
    this.#forgetPrevious(turn);
    this.#output.sendOutsideTurn(errorFrame(error, turn.requestId, turn.frame.streamId));
    // The key is no longer valid, so further turns would fail as well.
    if (error.status === 401) this.#close(POLICY_VIOLATED, error.code);
  }

  /** A failed turn cannot be continued: the client has to send the conversation in full. */
  #forgetPrevious({ frame }: Turn): void {
    if (frame.previousId !== null) this.#active?.memory.forget(frame.previousId);
  }

  #finish(turn: Turn): void {
    const work = this.#active;
    if (work === null || !work.lanes.end(turn)) return;
    this.#startNext(work);
    this.#closeIfIdle();
  }

  #sendCodexFrames({ headers, metadata }: Turn, { caller, request }: ReservedRequest<Turn>): void {
    const { gateway } = this.#context;
    const limits = rateLimitsFrame(gateway.limiter, caller, gateway.clock.nowMs());
    if (limits !== null) this.#output.sendText(limits);
    if (metadata !== null && metadata.conversationName !== null) return;
    const name = nameConversation(headers, request);
    if (name !== null) this.#output.sendText(turnStateFrame(name));
  }

  #sendError(error: ApiError, streamId: string | null): void {
    this.#output.sendOutsideTurn(errorFrame(error, this.#context.newId("req"), streamId));
  }

  #closeIfIdle(): void {
    const retirement = this.#retirement;
    const work = this.#active;
    const line = this.#output;
    if (retirement === null || !line.isOpen) return;
    if (work !== null && !work.lanes.isIdle) return;
    if (retirement.sendsErrorWhenIdle)
      line.sendText(errorFrame(retirement.error, this.#context.newId("req"), null));
    this.#close(retirement.code, retirement.error.code);
  }

  #close(code: number, reason: string): void {
    this.#detach()?.close(code, reason);
  }

  /** Detaches the output and ends all turns. */
  #detach(): SocketOutput | null {
    const socket = this.#output.detach();
    this.#active?.lanes.close();
    return socket;
  }
}
