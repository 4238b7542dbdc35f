/**
 * The pool of open sockets between responses. A socket that served a conversation last is reserved for it while the
 * pool has space, because only that socket can continue the conversation.
 */

import type { Deadline, Deadlines } from "../../net/wire/deadlines.ts";
import type { PolicyAccount } from "../../policy/snapshot.ts";
import { readMessageKind } from "./event-text.ts";
import type { SocketConversation, SocketUser, UpstreamSocket } from "./upstream-socket.ts";

export interface WarmSocketsOptions {
  alarms: Deadlines;
  monotonicMs(): number;
  /** Older sockets are not reused. Upstreams close sockets after an hour, even in the middle of a response. */
  ageMs: number;
  /** How long an unused socket without a conversation stays open. */
  idleMs: number;
  /** Silence after which a socket is pinged. */
  pingMs: number;
  /** Maximum number of free sockets per account. */
  freeMax: number;
  /**
   * For this long after a turn, a socket serves only the same conversation, so that no other receives its late
   * messages.
   */
  restMs: number;
}

/** A set of interchangeable sockets: same account, same credential, same handshake. */
export interface SocketShelf {
  readonly purpose: string;
  readonly account: PolicyAccount;
  /** The least recently used socket first. */
  readonly free: UpstreamSocket[];
  /** All sockets of the set, including busy ones. */
  readonly all: Set<UpstreamSocket>;
  /** The set is no longer needed: sockets that are returned to it are closed. */
  isRetired: boolean;
}

export interface WarmSockets {
  shelfFor(purpose: string, account: PolicyAccount): SocketShelf;
  /** Returns the socket that served the conversation, if it is free; else one that is not reserved; else null. */
  take(shelf: SocketShelf, thread: SocketConversation): UpstreamSocket | null;
  /** Adds a socket that was just opened and is busy. */
  add(shelf: SocketShelf, socket: UpstreamSocket): void;
  /** The socket has served a turn, and no more messages are expected: it can be reused. */
  free(shelf: SocketShelf, socket: UpstreamSocket): void;
  /** Removes a closed socket. */
  drop(shelf: SocketShelf, socket: UpstreamSocket): void;
  /** Removes and closes a socket. */
  discard(shelf: SocketShelf, socket: UpstreamSocket): void;
  /** Closes the sockets of all sets for which `isWanted` returns false, now or when they are returned. */
  retain(isWanted: (shelf: SocketShelf) => boolean): void;
  close(): void;
}

const GOING_AWAY = 1001;
/** Ages and silences are checked this many times per ping interval. */
const CHECKS_PER_PING = 4;

export function openWarmSockets(options: WarmSocketsOptions): WarmSockets {
  const { alarms, monotonicMs, ageMs, idleMs, pingMs, freeMax, restMs } = options;
  const sets = new Map<string, SocketShelf>();
  /** Free sockets by account id, over all its sets, the least recently used first. */
  const freeByAccount = new Map<string, Map<UpstreamSocket, SocketShelf>>();
  let deadline: Deadline | null = null;
  let isClosed = false;

  function shelfFor(purpose: string, account: PolicyAccount): SocketShelf {
    let shelf = sets.get(purpose);
    if (shelf === undefined) {
      shelf = { purpose, account, free: [], all: new Set(), isRetired: isClosed };
      sets.set(purpose, shelf);
    }
    return shelf;
  }

  function take(shelf: SocketShelf, thread: SocketConversation): UpstreamSocket | null {
    const reserved = thread.last?.socket;
    if (reserved !== undefined && shelf.free.includes(reserved)) {
      if (isYoung(reserved)) return takeFrom(shelf, reserved);
      discard(shelf, reserved);
    }
    for (let at = shelf.free.length - 1; at >= 0; at--) {
      const socket = shelf.free[at];
      if (socket !== undefined && !isReserved(socket) && mayServe(socket, thread))
        return takeFrom(shelf, socket);
    }
    if ((freeByAccount.get(shelf.account.id)?.size ?? 0) < freeMax) return null;
    const oldest = shelf.free.find((socket) => mayServe(socket, thread));
    return oldest === undefined ? null : takeFrom(shelf, oldest);
  }

  function takeFrom(shelf: SocketShelf, socket: UpstreamSocket): UpstreamSocket {
    unlist(shelf, socket);
    return socket;
  }

  function unlist(shelf: SocketShelf, socket: UpstreamSocket): void {
    const at = shelf.free.indexOf(socket);
    if (at < 0) return;
    shelf.free.splice(at, 1);
    const accountFree = freeByAccount.get(shelf.account.id);
    accountFree?.delete(socket);
    if (accountFree?.size === 0) freeByAccount.delete(shelf.account.id);
  }

  function mayServe(socket: UpstreamSocket, thread: SocketConversation): boolean {
    const hasNoLateMessages = socket.askedBy === thread || monotonicMs() - socket.usedAtMs >= restMs;
    return hasNoLateMessages && isYoung(socket);
  }

  function isYoung(socket: UpstreamSocket): boolean {
    return monotonicMs() - socket.openedAtMs < ageMs;
  }

  /** A conversation may continue on this socket. */
  function isReserved(socket: UpstreamSocket): boolean {
    return socket.thread !== null;
  }

  function add(shelf: SocketShelf, socket: UpstreamSocket): void {
    shelf.all.add(socket);
    deadline ??= alarms.set(pingMs / CHECKS_PER_PING, checkAll);
  }

  function free(shelf: SocketShelf, socket: UpstreamSocket): void {
    if (shelf.isRetired || !socket.isOpen || !isYoung(socket)) {
      discard(shelf, socket);
      return;
    }
    socket.user = createIdleUser(shelf, socket);
    socket.usedAtMs = monotonicMs();
    const accountFree = freeByAccount.get(shelf.account.id) ?? new Map<UpstreamSocket, SocketShelf>();
    freeByAccount.set(shelf.account.id, accountFree.set(socket, shelf));
    shelf.free.push(socket);
    if (accountFree.size > freeMax) discardOldest(accountFree);
    socket.resume();
  }

  function discardOldest(free: ReadonlyMap<UpstreamSocket, SocketShelf>): void {
    const sockets = [...free.keys()];
    const oldest = sockets.find((socket) => !isReserved(socket)) ?? sockets[0];
    const shelf = oldest && free.get(oldest);
    if (oldest !== undefined && shelf !== undefined) discard(shelf, oldest);
  }

  /** On a free socket, only pongs and private messages are expected. Any other message closes it. */
  function createIdleUser(shelf: SocketShelf, socket: UpstreamSocket): SocketUser {
    return {
      opened() {},
      refused() {},
      message(bytes, start, end) {
        if (readMessageKind(bytes, start, end) !== "private") discard(shelf, socket);
      },
      readEnded() {},
      closed: () => drop(shelf, socket),
    };
  }

  function drop(shelf: SocketShelf, socket: UpstreamSocket): void {
    unlist(shelf, socket);
    shelf.all.delete(socket);
    socket.thread?.forget();
  }

  function discard(shelf: SocketShelf, socket: UpstreamSocket): void {
    drop(shelf, socket);
    socket.close(isClosed ? GOING_AWAY : undefined);
  }

  function checkAll(): void {
    deadline = null;
    const nowMs = monotonicMs();
    for (const shelf of [...sets.values()]) {
      for (const socket of [...shelf.free]) {
        const isIdle = !isReserved(socket) && nowMs - socket.usedAtMs >= idleMs;
        if (isIdle || !isYoung(socket)) discard(shelf, socket);
      }
      for (const socket of [...shelf.all]) checkSilence(socket, nowMs);
      // Not as soon as the set is empty: a turn may be about to open the next socket for it.
      if (shelf.all.size === 0) sets.delete(shelf.purpose);
    }
    if (sets.size > 0) deadline = alarms.set(pingMs / CHECKS_PER_PING, checkAll);
  }

  /** A paused socket is not read, so its silence is not a failure. */
  function checkSilence(socket: UpstreamSocket, nowMs: number): void {
    if (socket.hasSpoken) socket.heardAtMs = nowMs;
    socket.hasSpoken = false;
    if (!socket.isOpen || socket.isHeldUp) return;
    const isPinged = socket.pingedAtMs !== null && socket.pingedAtMs > socket.heardAtMs;
    if (isPinged && nowMs - (socket.pingedAtMs ?? nowMs) >= pingMs) socket.fail("no answer to a ping");
    else if (!isPinged && nowMs - socket.heardAtMs >= pingMs) socket.ping();
  }

  function retain(isWanted: (shelf: SocketShelf) => boolean): void {
    for (const shelf of [...sets.values()]) {
      if (isWanted(shelf)) continue;
      shelf.isRetired = true;
      // A later turn creates a new set.
      sets.delete(shelf.purpose);
      for (const socket of [...shelf.free]) discard(shelf, socket);
    }
  }

  return {
    shelfFor,
    take,
    add,
    free,
    drop,
    discard,
    retain,
    close() {
      isClosed = true;
      if (deadline !== null) alarms.cancel(deadline);
      deadline = null;
      retain(() => false);
    },
  };
}
