/** The turns of one connection: sequential within each lane, in order of arrival, with a limit in total. */

import { UpstreamLane } from "../accounts/websocket/client.ts";
import { ApiError, paramError } from "../errors.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { CreateFrame } from "./client-frame.ts";

export interface LaneLimits {
  readonly socketLanesMax: number;
  readonly socketTurnsWaitingMax: number;
}

interface LaneTurn {
  readonly lane: TurnLane;
  /** The client disconnected. */
  abort(): void;
}

/** The shared state of the turns of one `stream_id`, or of none. */
export interface TurnLane {
  readonly name: string;
  readonly upstreamLane: UpstreamLane;
  turn: LaneTurn | null;
  waiting: number;
}

export interface WaitingTurn {
  readonly lane: TurnLane;
  readonly frame: CreateFrame;
}

/** The lane of frames without a `stream_id`. */
const UNNAMED = "";
/** Approximate memory of a frame in addition to its bytes. */
const FRAME_BYTES = 1_024;

export class Lanes {
  readonly #limits: LaneLimits;
  readonly #waitingBytes: ByteBudget;
  readonly #key: string;
  readonly #lanes = new Map<string, TurnLane>();
  #waiting: WaitingTurn[] = [];
  #inFlight = 0;

  constructor(limits: LaneLimits, waitingBytes: ByteBudget, key: string) {
    this.#limits = limits;
    this.#waitingBytes = waitingBytes;
    this.#key = key;
  }

  get isIdle(): boolean {
    return this.#inFlight === 0 && this.#waiting.length === 0;
  }

  /** Queues a turn. Returns the error for the client when the limits are reached. */
  add(frame: CreateFrame, turnsMax: number): ApiError | null {
    const name = frame.streamId ?? UNNAMED;
    const lane = this.#lanes.get(name);
    if (lane === undefined && name !== UNNAMED && this.#countNamed() >= this.#limits.socketLanesMax) {
      return tooManyLanesError(this.#limits.socketLanesMax);
    }
    const mustWait = this.#inFlight >= turnsMax || (lane !== undefined && lane.turn !== null);
    const isFull =
      (lane?.waiting ?? 0) >= this.#limits.socketTurnsWaitingMax ||
      !this.#waitingBytes.fits(this.#key, heldBytes(frame));
    if (mustWait && isFull) return tooManyTurnsError();
    const target = lane ?? this.#open(name);
    target.waiting++;
    this.#waitingBytes.take(this.#key, heldBytes(frame));
    this.#waiting.push({ lane: target, frame });
    return null;
  }

  /** Removes and returns the first turn whose lane is free; null when none may start now. */
  next(turnsMax: number): WaitingTurn | null {
    if (this.#inFlight >= turnsMax) return null;
    const at = this.#waiting.findIndex(({ lane }) => lane.turn === null);
    const [found] = at === -1 ? [] : this.#waiting.splice(at, 1);
    if (found === undefined) return null;
    found.lane.waiting--;
    this.#waitingBytes.release(this.#key, heldBytes(found.frame));
    return found;
  }

  begin(turn: LaneTurn): void {
    turn.lane.turn = turn;
    this.#inFlight++;
  }

  /** Returns false if the turn was already released. */
  end(turn: LaneTurn): boolean {
    if (turn.lane.turn !== turn) return false;
    turn.lane.turn = null;
    this.#inFlight--;
    return true;
  }

  /** Removes and returns all turns that have not started. */
  clear(): readonly WaitingTurn[] {
    const cleared = this.#waiting;
    this.#waiting = [];
    for (const { lane, frame } of cleared) {
      lane.waiting = 0;
      this.#waitingBytes.release(this.#key, heldBytes(frame));
    }
    return cleared;
  }

  /** The connection is closed: ends its conversations and notifies the turns in flight. */
  close(): void {
    this.clear();
    for (const lane of this.#lanes.values()) {
      const { turn } = lane;
      lane.turn = null;
      turn?.abort();
      lane.upstreamLane.end();
    }
    this.#inFlight = 0;
  }

  #countNamed(): number {
    return this.#lanes.has(UNNAMED) ? this.#lanes.size - 1 : this.#lanes.size;
  }

  #open(name: string): TurnLane {
    const lane: TurnLane = { name, upstreamLane: new UpstreamLane(), turn: null, waiting: 0 };
    this.#lanes.set(name, lane);
    return lane;
  }
}

function heldBytes({ bytes }: CreateFrame): number {
  return bytes.length + FRAME_BYTES;
}

function tooManyLanesError(max: number): ApiError {
  return paramError(
    "stream_id",
    "websocket_stream_limit_reached",
    `A connection can have at most ${max} values of \`stream_id\`. Reuse one of them, or open another connection.`,
  );
}

export function tooManyTurnsError(): ApiError {
  return new ApiError(
    "rate_limit_exceeded",
    "The queue of this connection is full. Wait until earlier turns have ended.",
    { headers: { "retry-after": "1" } },
  );
}
