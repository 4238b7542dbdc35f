/**
 * The pool of open sockets between responses. A socket that served a lane last is reserved for it while the
 * pool has space, because only that socket can continue it.
 */

import type { Deadline, Deadlines } from "../../base/deadlines.ts";
import type { PolicyAccount } from "../account.ts";
import { readMessageKind } from "./event-text.ts";
import type { SocketUser, UpstreamLane, UpstreamSocket } from "./upstream-socket.ts";

export interface WarmSocketsOptions {
  deadlines: Deadlines;
  monotonicMs(): number;
  /** Older sockets are not reused. Upstreams close sockets after an hour, even in the middle of a response. */
  ageMs: number;
  /** How long an unused socket without a lane stays open. */
  idleMs: number;
  /** Silence after which a socket is pinged. */
  pingMs: number;
  freeMax: number;
  /** For this long after a turn a socket serves only its lane, so that no other gets its late messages. */
  reuseDelayMs: number;
}

/** A set of interchangeable sockets: same account, same credential, same handshake. */
export interface SocketSet {
  readonly key: string;
  readonly account: PolicyAccount;
  /** The least recently used socket first. */
  readonly free: UpstreamSocket[];
  /** All sockets of the set, including busy ones. */
  readonly all: Set<UpstreamSocket>;
  /** The set is no longer needed: sockets that are returned to it are closed. */
  isRetired: boolean;
}

const GOING_AWAY = 1001;
/** Ages and silences are checked this many times per ping interval. */
const CHECKS_PER_PING = 4;

export class WarmSockets {
  readonly #options: WarmSocketsOptions;
  readonly #sets = new Map<string, SocketSet>();
  /** Free sockets by account id, over all its sets, the least recently used first. */
  readonly #freeByAccount = new Map<string, Map<UpstreamSocket, SocketSet>>();
  /** Of the next check; null while there is no socket to check. */
  #checkDeadline: Deadline | null = null;
  #isClosed = false;

  constructor(options: WarmSocketsOptions) {
    this.#options = options;
  }

  getSet(key: string, account: PolicyAccount): SocketSet {
    let socketSet = this.#sets.get(key);
    if (socketSet === undefined) {
      socketSet = { key, account, free: [], all: new Set(), isRetired: this.#isClosed };
      this.#sets.set(key, socketSet);
    }
    return socketSet;
  }

  /** Returns the socket that served the lane, if it is free; else one that is not reserved; else null. */
  take(socketSet: SocketSet, lane: UpstreamLane): UpstreamSocket | null {
    const socket =
      this.#findReserved(socketSet, lane) ??
      this.#findUnreserved(socketSet, lane) ??
      this.#findReplaceable(socketSet, lane);
    if (socket !== null) this.#removeFree(socketSet, socket);
    return socket;
  }

  /** Adds a socket that was just opened and is busy. */
  add(socketSet: SocketSet, socket: UpstreamSocket): void {
    socketSet.all.add(socket);
    this.#scheduleCheck();
  }

  /** The socket has served a turn, and no more messages are expected: it can be reused. */
  free(socketSet: SocketSet, socket: UpstreamSocket): void {
    if (socketSet.isRetired || !socket.isOpen || !this.#isYoung(socket)) {
      this.discard(socketSet, socket);
      return;
    }
    socket.user = this.#createIdleUser(socketSet, socket);
    socket.usedAtMs = this.#options.monotonicMs();
    const { id } = socketSet.account;
    const accountFree = this.#freeByAccount.get(id) ?? new Map<UpstreamSocket, SocketSet>();
    this.#freeByAccount.set(id, accountFree.set(socket, socketSet));
    socketSet.free.push(socket);
    if (accountFree.size > this.#options.freeMax) this.#discardOldest(accountFree);
    socket.resume();
  }

  /** Removes a closed socket. */
  drop(socketSet: SocketSet, socket: UpstreamSocket): void {
    this.#removeFree(socketSet, socket);
    socketSet.all.delete(socket);
    socket.reservedLane?.clear();
  }

  /** Removes and closes a socket. */
  discard(socketSet: SocketSet, socket: UpstreamSocket): void {
    this.drop(socketSet, socket);
    socket.close(this.#isClosed ? GOING_AWAY : undefined);
  }

  /** Closes the sockets of all sets for which `isWanted` returns false, now or when they are returned. */
  retain(isWanted: (socketSet: SocketSet) => boolean): void {
    for (const socketSet of [...this.#sets.values()]) {
      if (isWanted(socketSet)) continue;
      socketSet.isRetired = true;
      // A later turn creates a new set.
      this.#sets.delete(socketSet.key);
      for (const socket of [...socketSet.free]) this.discard(socketSet, socket);
    }
  }

  close(): void {
    this.#isClosed = true;
    if (this.#checkDeadline !== null) this.#options.deadlines.cancel(this.#checkDeadline);
    this.#checkDeadline = null;
    this.retain(() => false);
  }

  #findReserved(socketSet: SocketSet, lane: UpstreamLane): UpstreamSocket | null {
    const socket = lane.last?.socket;
    if (socket === undefined || !socketSet.free.includes(socket)) return null;
    if (this.#isYoung(socket)) return socket;
    this.discard(socketSet, socket);
    return null;
  }

  /** The most recently used one, so that the others become idle and are closed. */
  #findUnreserved({ free }: SocketSet, lane: UpstreamLane): UpstreamSocket | null {
    return free.findLast((socket) => !isReserved(socket) && this.#mayServe(socket, lane)) ?? null;
  }

  /** A socket that is reserved for another lane is only taken if the pool has no space for one more. */
  #findReplaceable({ account, free }: SocketSet, lane: UpstreamLane): UpstreamSocket | null {
    const freeCount = this.#freeByAccount.get(account.id)?.size ?? 0;
    if (freeCount < this.#options.freeMax) return null;
    return free.find((socket) => this.#mayServe(socket, lane)) ?? null;
  }

  #mayServe(socket: UpstreamSocket, lane: UpstreamLane): boolean {
    const { monotonicMs, reuseDelayMs } = this.#options;
    const hasNoLateMessages = socket.lastLane === lane || monotonicMs() - socket.usedAtMs >= reuseDelayMs;
    return hasNoLateMessages && this.#isYoung(socket);
  }

  #isYoung(socket: UpstreamSocket): boolean {
    return this.#options.monotonicMs() - socket.openedAtMs < this.#options.ageMs;
  }

  #removeFree({ account, free }: SocketSet, socket: UpstreamSocket): void {
    const at = free.indexOf(socket);
    if (at < 0) return;
    free.splice(at, 1);
    const accountFree = this.#freeByAccount.get(account.id);
    accountFree?.delete(socket);
    if (accountFree?.size === 0) this.#freeByAccount.delete(account.id);
  }

  #discardOldest(free: ReadonlyMap<UpstreamSocket, SocketSet>): void {
    const sockets = [...free.keys()];
    const oldest = sockets.find((socket) => !isReserved(socket)) ?? sockets[0];
    const socketSet = oldest && free.get(oldest);
    if (oldest !== undefined && socketSet !== undefined) this.discard(socketSet, oldest);
  }

  /** On a free socket, only pongs and private messages are expected. Any other message closes it. */
  #createIdleUser(socketSet: SocketSet, socket: UpstreamSocket): SocketUser {
    return {
      onOpen() {},
      onReject() {},
      onMessage: (bytes, start, end) => {
        if (readMessageKind(bytes, start, end) !== "private") this.discard(socketSet, socket);
      },
      onReadEnd() {},
      onClose: () => this.drop(socketSet, socket),
    };
  }

  #scheduleCheck(): void {
    const { deadlines, pingMs } = this.#options;
    this.#checkDeadline ??= deadlines.set(pingMs / CHECKS_PER_PING, () => this.#checkAll());
  }

  #checkAll(): void {
    this.#checkDeadline = null;
    const nowMs = this.#options.monotonicMs();
    for (const socketSet of [...this.#sets.values()]) {
      this.#discardUnused(socketSet, nowMs);
      for (const socket of [...socketSet.all]) checkSilence(socket, nowMs, this.#options.pingMs);
      // Not as soon as the set is empty: a turn may be about to open the next socket for it.
      if (socketSet.all.size === 0) this.#sets.delete(socketSet.key);
    }
    if (this.#sets.size > 0) this.#scheduleCheck();
  }

  #discardUnused(socketSet: SocketSet, nowMs: number): void {
    for (const socket of [...socketSet.free]) {
      const isIdle = !isReserved(socket) && nowMs - socket.usedAtMs >= this.#options.idleMs;
      if (isIdle || !this.#isYoung(socket)) this.discard(socketSet, socket);
    }
  }
}

/** A lane may continue on this socket. */
function isReserved(socket: UpstreamSocket): boolean {
  return socket.reservedLane !== null;
}

/** Pings a silent socket, and fails it without a pong. A paused socket is not read, so its silence is not a failure. */
function checkSilence(socket: UpstreamSocket, nowMs: number, pingMs: number): void {
  if (socket.hasReceived) socket.lastReceivedAtMs = nowMs;
  socket.hasReceived = false;
  if (!socket.isOpen || socket.isReadPaused) return;
  const isPinged = socket.pingedAtMs !== null && socket.pingedAtMs > socket.lastReceivedAtMs;
  if (isPinged && nowMs - (socket.pingedAtMs ?? nowMs) >= pingMs) socket.fail("no pong within the deadline");
  else if (!isPinged && nowMs - socket.lastReceivedAtMs >= pingMs) socket.ping();
}
