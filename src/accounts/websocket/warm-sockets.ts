/**
 * The sockets that are open between responses. One that served a conversation last is kept for it as long as there is
 * room, for only that one can go on from what was said.
 */

import type { Deadline, Deadlines } from "../../net/wire/deadlines.ts";
import type { PolicyAccount } from "../../policy/snapshot.ts";
import { readMessageKind } from "./event-text.ts";
import type { SocketConversation, SocketUser, UpstreamSocket } from "./upstream-socket.ts";

export interface WarmSocketsOptions {
  alarms: Deadlines;
  monotonicMs(): number;
  /** An older one serves nobody any more: upstreams close theirs after an hour, in the middle of whatever is said. */
  ageMs: number;
  /** Without a conversation of its own, and without use. */
  idleMs: number;
  /** Silence after which a socket is asked whether it lives. */
  pingMs: number;
  /** Free ones to one account. */
  freeMax: number;
  /** For so long after a turn a socket serves the same conversation alone: what comes late is heard by no other. */
  restMs: number;
}

/** Sockets that may stand in for each other: to one account, by one credential, with the same handshake. */
export interface SocketShelf {
  readonly purpose: string;
  readonly account: PolicyAccount;
  /** The least recently used first. */
  readonly free: UpstreamSocket[];
  /** All sockets of the shelf, busy ones included. */
  readonly all: Set<UpstreamSocket>;
  /** The shelf is no longer wanted: sockets that come back to it are closed. */
  isRetired: boolean;
}

export interface WarmSockets {
  shelfFor(purpose: string, account: PolicyAccount): SocketShelf;
  /** The socket that the thread was served by, if it is free; else one that nobody waits for; else null. */
  take(shelf: SocketShelf, thread: SocketConversation): UpstreamSocket | null;
  /** Adds a socket that was just opened and is busy. */
  add(shelf: SocketShelf, socket: UpstreamSocket): void;
  /** The socket has served a turn, and nothing more will come of it: others may use it. */
  free(shelf: SocketShelf, socket: UpstreamSocket): void;
  /** The socket is gone. */
  drop(shelf: SocketShelf, socket: UpstreamSocket): void;
  /** The socket is closed, and serves nobody any more. */
  discard(shelf: SocketShelf, socket: UpstreamSocket): void;
  /** Closes what is free, now or when it comes back, wherever `isWanted` says no. */
  retain(isWanted: (shelf: SocketShelf) => boolean): void;
  close(): void;
}

const GOING_AWAY = 1001;
/** Ages and silences may pass by this part of the time between two pings. */
const LOOKS_PER_PING = 4;

export function openWarmSockets(options: WarmSocketsOptions): WarmSockets {
  const { alarms, monotonicMs, ageMs, idleMs, pingMs, freeMax, restMs } = options;
  const shelves = new Map<string, SocketShelf>();
  /** By the id of the account, over all its shelves: the least recently used first. */
  const freeOf = new Map<string, Map<UpstreamSocket, SocketShelf>>();
  let alarm: Deadline | null = null;
  let isClosed = false;

  function shelfFor(purpose: string, account: PolicyAccount): SocketShelf {
    let shelf = shelves.get(purpose);
    if (shelf === undefined) {
      shelf = { purpose, account, free: [], all: new Set(), isRetired: isClosed };
      shelves.set(purpose, shelf);
    }
    return shelf;
  }

  function take(shelf: SocketShelf, thread: SocketConversation): UpstreamSocket | null {
    const own = thread.last?.socket;
    if (own !== undefined && shelf.free.includes(own)) {
      if (isYoung(own)) return taken(shelf, own);
      discard(shelf, own);
    }
    for (let at = shelf.free.length - 1; at >= 0; at--) {
      const socket = shelf.free[at];
      if (socket !== undefined && !isKept(socket) && mayServe(socket, thread)) return taken(shelf, socket);
    }
    if ((freeOf.get(shelf.account.id)?.size ?? 0) < freeMax) return null;
    const oldest = shelf.free.find((one) => mayServe(one, thread));
    return oldest === undefined ? null : taken(shelf, oldest);
  }

  function taken(shelf: SocketShelf, socket: UpstreamSocket): UpstreamSocket {
    unlist(shelf, socket);
    return socket;
  }

  function unlist(shelf: SocketShelf, socket: UpstreamSocket): void {
    const at = shelf.free.indexOf(socket);
    if (at < 0) return;
    shelf.free.splice(at, 1);
    const ofAccount = freeOf.get(shelf.account.id);
    ofAccount?.delete(socket);
    if (ofAccount?.size === 0) freeOf.delete(shelf.account.id);
  }

  function mayServe(socket: UpstreamSocket, thread: SocketConversation): boolean {
    const isRested = socket.askedBy === thread || monotonicMs() - socket.usedAtMs >= restMs;
    return isRested && isYoung(socket);
  }

  function isYoung(socket: UpstreamSocket): boolean {
    return monotonicMs() - socket.openedAtMs < ageMs;
  }

  /** Some conversation may come back to it. */
  function isKept(socket: UpstreamSocket): boolean {
    return socket.thread !== null;
  }

  function add(shelf: SocketShelf, socket: UpstreamSocket): void {
    shelf.all.add(socket);
    alarm ??= alarms.set(pingMs / LOOKS_PER_PING, look);
  }

  function free(shelf: SocketShelf, socket: UpstreamSocket): void {
    if (shelf.isRetired || !socket.isOpen || !isYoung(socket)) {
      discard(shelf, socket);
      return;
    }
    socket.user = idlerOf(shelf, socket);
    socket.usedAtMs = monotonicMs();
    const ofAccount = freeOf.get(shelf.account.id) ?? new Map<UpstreamSocket, SocketShelf>();
    freeOf.set(shelf.account.id, ofAccount.set(socket, shelf));
    shelf.free.push(socket);
    if (ofAccount.size > freeMax) discardOldest(ofAccount);
    socket.resume();
  }

  function discardOldest(free: ReadonlyMap<UpstreamSocket, SocketShelf>): void {
    const sockets = [...free.keys()];
    const oldest = sockets.find((one) => !isKept(one)) ?? sockets[0];
    const shelf = oldest && free.get(oldest);
    if (oldest !== undefined && shelf !== undefined) discard(shelf, oldest);
  }

  /** Nothing is expected of a free socket but pongs, and what is between the upstream and us. */
  function idlerOf(shelf: SocketShelf, socket: UpstreamSocket): SocketUser {
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

  function look(): void {
    alarm = null;
    const nowMs = monotonicMs();
    for (const shelf of [...shelves.values()]) {
      for (const socket of [...shelf.free]) {
        const isIdle = !isKept(socket) && nowMs - socket.usedAtMs >= idleMs;
        if (isIdle || !isYoung(socket)) discard(shelf, socket);
      }
      for (const socket of [...shelf.all]) lookAfter(socket, nowMs);
      // Not as soon as it is empty: a turn may be about to open the next socket for it.
      if (shelf.all.size === 0) shelves.delete(shelf.purpose);
    }
    if (shelves.size > 0) alarm = alarms.set(pingMs / LOOKS_PER_PING, look);
  }

  /** A socket that we have paused is not read from, so its silence is our own doing. */
  function lookAfter(socket: UpstreamSocket, nowMs: number): void {
    if (socket.hasSpoken) socket.heardAtMs = nowMs;
    socket.hasSpoken = false;
    if (!socket.isOpen || socket.isHeldUp) return;
    const isAsked = socket.pingedAtMs !== null && socket.pingedAtMs > socket.heardAtMs;
    if (isAsked && nowMs - (socket.pingedAtMs ?? nowMs) >= pingMs) socket.fail("no answer to a ping");
    else if (!isAsked && nowMs - socket.heardAtMs >= pingMs) socket.ping();
  }

  function retain(isWanted: (shelf: SocketShelf) => boolean): void {
    for (const shelf of [...shelves.values()]) {
      if (isWanted(shelf)) continue;
      shelf.isRetired = true;
      // A turn that comes later opens a shelf of its own.
      shelves.delete(shelf.purpose);
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
      if (alarm !== null) alarms.cancel(alarm);
      alarm = null;
      retain(() => false);
    },
  };
}
