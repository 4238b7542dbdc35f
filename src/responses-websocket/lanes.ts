/** The turns of one connection: on each lane one after the other, in the order they came, and only so many in all. */

import { SocketConversation } from "../accounts/websocket/client.ts";
import { ApiError } from "../errors.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { CreateFrame } from "./client-frame.ts";

export interface LaneLimits {
  readonly socketLanesMax: number;
  readonly socketTurnsWaitingMax: number;
}

export interface LaneTurn {
  readonly lane: TurnLane;
  /** The client is gone. */
  leave(): void;
}

/** What turns of one `stream_id`, or of none, have in common. */
export interface TurnLane {
  readonly name: string;
  readonly thread: SocketConversation;
  /** The turn that is under way. */
  turn: LaneTurn | null;
  waiting: number;
}

export interface WaitingTurn {
  readonly lane: TurnLane;
  readonly frame: CreateFrame;
}

/** The lane of frames that name none. */
const UNNAMED = "";
/** About what a frame takes up beside its bytes. */
const FRAME_BYTES = 1_024;

export class Lanes {
  private readonly limits: LaneLimits;
  private readonly waitingBytes: ByteBudget;
  /** Whose connection it is. */
  private readonly key: string;
  private readonly lanes = new Map<string, TurnLane>();
  private waiting: WaitingTurn[] = [];
  private underWay = 0;

  constructor(limits: LaneLimits, waitingBytes: ByteBudget, key: string) {
    this.limits = limits;
    this.waitingBytes = waitingBytes;
    this.key = key;
  }

  get isIdle(): boolean {
    return this.underWay === 0 && this.waiting.length === 0;
  }

  /** The error for its client when there is no room for it. */
  add(frame: CreateFrame, turnsMax: number): ApiError | null {
    const name = frame.streamId ?? UNNAMED;
    const lane = this.lanes.get(name);
    if (lane === undefined && name !== UNNAMED && this.named() >= this.limits.socketLanesMax) {
      return tooManyLanes(this.limits.socketLanesMax);
    }
    const mustWait = this.underWay >= turnsMax || (lane !== undefined && lane.turn !== null);
    const isFull =
      (lane?.waiting ?? 0) >= this.limits.socketTurnsWaitingMax ||
      !this.waitingBytes.hasRoom(this.key, heldBy(frame));
    if (mustWait && isFull) return tooManyTurns();
    const at = lane ?? this.open(name);
    at.waiting++;
    this.waitingBytes.take(this.key, heldBy(frame));
    this.waiting.push({ lane: at, frame });
    return null;
  }

  /** Takes out the first turn whose lane is free; null when none may begin now. */
  next(turnsMax: number): WaitingTurn | null {
    if (this.underWay >= turnsMax) return null;
    const at = this.waiting.findIndex(({ lane }) => lane.turn === null);
    const [found] = at === -1 ? [] : this.waiting.splice(at, 1);
    if (found === undefined) return null;
    found.lane.waiting--;
    this.waitingBytes.giveBack(this.key, heldBy(found.frame));
    return found;
  }

  begin(turn: LaneTurn): void {
    turn.lane.turn = turn;
    this.underWay++;
  }

  /** False if the turn was let go before. */
  end(turn: LaneTurn): boolean {
    if (turn.lane.turn !== turn) return false;
    turn.lane.turn = null;
    this.underWay--;
    return true;
  }

  /** Drops all turns that have not begun, and returns them. */
  clear(): readonly WaitingTurn[] {
    const cleared = this.waiting;
    this.waiting = [];
    for (const { lane, frame } of cleared) {
      lane.waiting = 0;
      this.waitingBytes.giveBack(this.key, heldBy(frame));
    }
    return cleared;
  }

  /** The connection is gone: its conversations are over, and nobody hears its turns. */
  close(): void {
    this.clear();
    for (const lane of this.lanes.values()) {
      const { turn } = lane;
      lane.turn = null;
      turn?.leave();
      lane.thread.end();
    }
    this.underWay = 0;
  }

  private named(): number {
    return this.lanes.has(UNNAMED) ? this.lanes.size - 1 : this.lanes.size;
  }

  private open(name: string): TurnLane {
    const lane: TurnLane = { name, thread: new SocketConversation(), turn: null, waiting: 0 };
    this.lanes.set(name, lane);
    return lane;
  }
}

function heldBy({ bytes }: CreateFrame): number {
  return bytes.length + FRAME_BYTES;
}

function tooManyLanes(max: number): ApiError {
  return new ApiError(
    "websocket_stream_limit_reached",
    `A connection has at most ${max} values of \`stream_id\`. Use one again, or open another connection.`,
    { param: "stream_id" },
  );
}

export function tooManyTurns(): ApiError {
  return new ApiError(
    "rate_limit_exceeded",
    "Too many turns wait already. Wait until some of those before them have ended.",
    { headers: { "retry-after": "1" } },
  );
}
