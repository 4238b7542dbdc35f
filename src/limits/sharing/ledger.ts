/**
 * The ledger that nodes share through a coordinator: which nodes are members, and by how much each of them deviates
 * from its share of a limit. Pure: a node reads the ledger, computes the next one here and replaces it.
 *
 * - What all members hold of a limit never exceeds it. A node lowers what it holds before it writes that, and raises it
 *   only after the write has succeeded.
 * - A changed list of members is introduced in two stages. Each member first confirms it and writes what it has used
 *   beyond its new share; then it writes what it will hold. Nothing is raised before all members have done both.
 * - A node receives more only if all others have written since its own last write. A ledger that lost writes therefore
 *   cannot grant: its next writer notices that its own write is missing, and starts a new epoch.
 */

import { CONCURRENCY_METER, isLongWindow } from "./meter-names.ts";
import { computeDefaultDelta, computeShare, type EarlierTerms, type ShareTerms } from "./shares.ts";

/** 1: has confirmed the members. 2: has written what it will hold. */
export type Stage = 0 | 1 | 2;

export interface LedgerNode {
  /** Counts the writes of the node. */
  write: number;
  beatMs: number;
  version: number;
  stage: Stage;
  /** The serial number of the ledger at the last write of the node. */
  serial: number;
  /** Has ended, by its own word or by that of the registry. `beatMs` is when this was written. */
  hasLeft: boolean;
  /** What the node held before the current list of members; null once it has confirmed that. */
  earlier: EarlierTerms | null;
}

export interface LedgerRow {
  /** What the node holds, minus its share. */
  delta: number;
  /** How much more it requests. */
  wish: number;
  /** The amount of the largest request that waits for it. */
  need: number;
  /** By how much it holds less than its share. */
  deficit: number;
  /** The limit that is divided. */
  limit: number;
}

export interface Ledger {
  readonly format: 1;
  epoch: string;
  serial: number;
  /** Grows with each change of the members. */
  version: number;
  members: string[];
  nodes: Record<string, LedgerNode>;
  /** By meter, then by node. A missing row is the default of the node (`computeDefaultDelta`). */
  meters: Record<string, Record<string, LedgerRow>>;
}

export interface ExchangeRequest {
  readonly node: string;
  /** The ledger that `stage` and `rows` refer to; null if the node knows none. */
  readonly known: { readonly epoch: string; readonly version: number } | null;
  readonly stage: Stage;
  readonly rows: Readonly<Record<string, LedgerRow>>;
  /** Members of a ledger that has to be created. */
  readonly candidates: readonly string[];
  /** The last ledger that the node has read or written. It replaces what the coordinator has lost. */
  readonly seen: Ledger | null;
  /** Members that are no longer registered: their processes have ended. */
  readonly ended: readonly string[];
  /** The registered nodes; null if they are unknown. A registered node is not removed. */
  readonly registered: readonly string[] | null;
  /** The number of this write, and the last one that is known to have succeeded. */
  readonly write: number;
  readonly confirmedWrite: number;
  readonly intent: "take_part" | "start_alone" | "rejoin" | "leave";
}

export interface ExchangeReply {
  readonly ledger: Ledger;
  readonly isConfirmedByAll: boolean;
  readonly isPreparedByAll: boolean;
  /** What was granted. 0: all other nodes have seen the wish, and none could give anything. */
  readonly grants: ReadonlyMap<string, number>;
  /** Nodes that have not written for some time, or have left. */
  readonly lost: ReadonlySet<string>;
}

export interface LedgerTiming {
  /** A node that has not written for this long is lost: the others stop waiting for it. */
  readonly lostAfterMs: number;
  /** A lost node keeps what it holds for this long: until its last uses have left the minute. */
  readonly removedAfterMs: number;
  /** The same for a node that is known to have ended: it uses nothing more. */
  readonly leftAfterMs: number;
}

export function exchange(
  current: Ledger | null,
  request: ExchangeRequest,
  { nowMs, newEpoch, timing }: { nowMs: number; newEpoch(): string; timing: LedgerTiming },
): ExchangeReply {
  const { node, known } = request;
  const ledger =
    current === null || needsNewEpoch(current, request)
      ? createLedger(current, request, { nowMs, epoch: newEpoch() })
      : structuredClone(current);
  ledger.serial += 1;
  markEnded(ledger, request, nowMs);
  updateMembers(ledger, request, { nowMs, timing });
  const own = ledger.nodes[node] ?? createNode(nowMs);
  const previousSerial = own.serial;
  const isCurrent = known !== null && known.epoch === ledger.epoch && known.version === ledger.version;
  Object.assign(own, { write: request.write, beatMs: nowMs, serial: ledger.serial });
  own.hasLeft = request.intent === "leave";
  ledger.nodes[node] = own;
  const asked = new Map<string, LedgerRow>();
  if (isCurrent) {
    own.version = ledger.version;
    own.stage = request.stage;
    own.earlier = null;
    for (const [meter, { [node]: row }] of Object.entries(ledger.meters))
      if (row !== undefined && isAsking(row)) asked.set(meter, row);
    replaceRows(ledger, node, request.rows);
  }
  const lost = findLost(ledger, nowMs, timing);
  const live = ledger.members.filter((member) => !lost.has(member));
  const reached = (stage: Stage) =>
    live.every((member) => {
      const row = ledger.nodes[member];
      return row !== undefined && row.version === ledger.version && row.stage >= stage;
    });
  const isPreparedByAll = reached(2);
  const isSeenByAll = live.every(
    (member) => member === node || (ledger.nodes[member]?.serial ?? 0) > previousSerial,
  );
  const grants = new Map<string, number>();
  if (isCurrent && isPreparedByAll && isSeenByAll) {
    for (const [meter, before] of asked) {
      const rows = ledger.meters[meter];
      if (rows?.[node] === undefined) continue;
      const amount = grant(ledger, { meter, node, rows, lost });
      if (amount > 0 || before.wish > 0) grants.set(meter, amount);
    }
  }
  return { ledger, isConfirmedByAll: reached(1), isPreparedByAll, grants, lost };
}

/** The terms under which the members of this ledger compute their shares. */
export function readTerms(ledger: Ledger): ShareTerms {
  const unconfirmed: Record<string, EarlierTerms> = {};
  for (const [member, { earlier, version, hasLeft }] of Object.entries(ledger.nodes)) {
    if (earlier !== null && version !== ledger.version)
      unconfirmed[member] = hasLeft ? { ...earlier, hasEnded: true } : earlier;
  }
  return { members: ledger.members, unconfirmed };
}

/** Whether the node asks the others for more, or would take back its share if they leave it. */
export function isAsking({ wish, deficit }: LedgerRow): boolean {
  return wish > 0 || deficit > 0;
}

function needsNewEpoch(current: Ledger, request: ExchangeRequest): boolean {
  if (request.intent === "start_alone" || isOlder(current, request.seen)) return true;
  if (request.known?.epoch !== current.epoch) return false;
  const own = current.nodes[request.node];
  // A removed node joins again. A missing write of a member means that the coordinator has lost writes.
  return own !== undefined && own.write < request.confirmedWrite;
}

/** Whether the coordinator has lost writes that a node has seen. */
export function isOlder(current: Ledger, seen: Ledger | null): boolean {
  return seen !== null && seen.epoch === current.epoch && seen.serial > current.serial;
}

/** Members that have ended cannot write again what they held. It is taken from the newest ledger that is known. */
function createLedger(
  current: Ledger | null,
  { node, candidates, intent, seen }: ExchangeRequest,
  { nowMs, epoch }: { nowMs: number; epoch: string },
): Ledger {
  const base = current === null || isOlder(current, seen) ? seen : current;
  const known = [...(current?.members ?? []), ...(base?.members ?? []), ...candidates, node];
  const members = intent === "start_alone" ? [node] : [...new Set(known)].sort();
  const nodes: Record<string, LedgerNode> = {};
  for (const member of members) {
    const former = base?.nodes[member];
    nodes[member] = createNode(nowMs);
    if (base === null || former === undefined || intent === "start_alone") continue;
    const earlier = captureTerms(base, member) ?? former.earlier;
    nodes[member] = { ...createNode(nowMs), hasLeft: former.hasLeft && member !== node, earlier };
  }
  return { format: 1, epoch, serial: base?.serial ?? 0, version: 1, members, nodes, meters: {} };
}

function createNode(nowMs: number): LedgerNode {
  return { write: 0, beatMs: nowMs, version: 0, stage: 0, serial: 0, hasLeft: false, earlier: null };
}

/** The others need not wait until these nodes are lost. */
function markEnded(ledger: Ledger, { node, ended }: ExchangeRequest, nowMs: number): void {
  for (const id of ended) {
    const row = ledger.nodes[id];
    if (row === undefined || row.hasLeft || id === node) continue;
    row.hasLeft = true;
    row.beatMs = nowMs;
  }
}

function updateMembers(
  ledger: Ledger,
  request: ExchangeRequest,
  { nowMs, timing }: { nowMs: number; timing: LedgerTiming },
): void {
  const { node, intent } = request;
  const own = ledger.nodes[node];
  const isNew = !ledger.members.includes(node);
  // Others may have taken the concurrency of a lost node.
  const wasLost = own !== undefined && (own.hasLeft || nowMs - own.beatMs > timing.lostAfterMs);
  // The coordinator may have been silent for all nodes. Each gets the whole time again.
  if (wasLost && !own.hasLeft)
    for (const row of Object.values(ledger.nodes)) if (!row.hasLeft) row.beatMs = nowMs;
  const { registered } = request;
  const removed = findOverdue(ledger, { node, nowMs, timing }).filter(
    (id) => registered !== null && !registered.includes(id),
  );
  const returns = !isNew && (wasLost || intent === "rejoin") && intent !== "leave";
  const forgotten = findForgotten(ledger, request);
  if (removed.length === 0 && !isNew && !returns && forgotten.length === 0) return;
  for (const [id, row] of Object.entries(ledger.nodes)) row.earlier ??= captureTerms(ledger, id);
  for (const { id, earlier } of forgotten) ledger.nodes[id] = { ...createNode(nowMs), earlier };
  for (const id of removed) delete ledger.nodes[id];
  ledger.nodes[node] ??= createNode(nowMs);
  ledger.members = Object.keys(ledger.nodes).sort();
  ledger.version += 1;
  ledger.meters = {};
}

/** Other nodes that have been lost or have left for long enough to be removed. */
export function findOverdue(
  { nodes }: Ledger,
  { node, nowMs, timing }: { node: string; nowMs: number; timing: LedgerTiming },
): string[] {
  const isOver = ([id, { beatMs, hasLeft }]: [string, LedgerNode]) =>
    id !== node && nowMs - beatMs > (hasLeft ? timing.leftAfterMs : timing.removedAfterMs);
  return Object.entries(nodes)
    .filter(isOver)
    .map(([id]) => id);
}

/** Members of the former ledger of which a new one, written by a node that had not seen the former, knows nothing. */
function findForgotten(
  ledger: Ledger,
  { node, seen }: ExchangeRequest,
): { id: string; earlier: EarlierTerms }[] {
  if (seen === null || seen.epoch === ledger.epoch) return [];
  return seen.members.flatMap((id) => {
    const row = ledger.nodes[id];
    const isKnown = row !== undefined && (row.version === ledger.version || row.earlier !== null);
    const earlier = captureTerms(seen, id) ?? seen.nodes[id]?.earlier ?? null;
    return isKnown || id === node || earlier === null ? [] : [{ id, earlier }];
  });
}

function captureTerms(ledger: Ledger, node: string): EarlierTerms | null {
  if (ledger.nodes[node]?.version !== ledger.version) return null;
  const deltas: Record<string, number> = {};
  const limits: Record<string, number> = {};
  for (const [meter, rows] of Object.entries(ledger.meters)) {
    const row = rows[node];
    if (row === undefined) continue;
    deltas[meter] = row.delta;
    if (isLongWindow(meter)) limits[meter] = row.limit;
  }
  return { members: ledger.members, deltas, limits };
}

function replaceRows(ledger: Ledger, node: string, rows: Readonly<Record<string, LedgerRow>>): void {
  for (const [meter, byNode] of Object.entries(ledger.meters)) {
    if (rows[meter] !== undefined) continue;
    delete byNode[node];
    if (Object.keys(byNode).length === 0) delete ledger.meters[meter];
  }
  for (const [meter, row] of Object.entries(rows)) {
    ledger.meters[meter] ??= {};
    const byNode = ledger.meters[meter];
    byNode[node] = { ...row };
  }
}

export function findLost(
  ledger: Ledger,
  nowMs: number,
  { lostAfterMs }: Pick<LedgerTiming, "lostAfterMs">,
): Set<string> {
  const lost = new Set<string>();
  for (const [id, { beatMs, hasLeft }] of Object.entries(ledger.nodes))
    if (hasLeft || nowMs - beatMs > lostAfterMs) lost.add(id);
  return lost;
}

interface GrantRequest {
  readonly meter: string;
  readonly node: string;
  readonly rows: Record<string, LedgerRow>;
  readonly lost: ReadonlySet<string>;
}

/** Moves as much as the others leave. Nodes below their share come first, and lost nodes keep theirs. */
function grant(ledger: Ledger, { meter, node, rows, lost }: GrantRequest): number {
  const own = rows[node];
  if (own === undefined) return 0;
  const terms = readTerms(ledger);
  const isConcurrency = meter.startsWith(CONCURRENCY_METER);
  let free = 0;
  let wishedBelowShare = 0;
  let wished = 0;
  for (const member of ledger.members) {
    const subject = { node: member, meter };
    const row = rows[member];
    const delta = row?.delta ?? computeDefaultDelta(terms, own.limit, subject);
    if (lost.has(member)) {
      // The requests of a lost node have ended with it, but its uses stay in the window.
      if (isConcurrency) free += computeShare(own.limit, ledger.members, subject);
      else free -= ledger.nodes[member]?.hasLeft ? delta : Math.max(0, delta);
      continue;
    }
    free -= delta;
    if (member === node || row === undefined) continue;
    wished += row.wish;
    wishedBelowShare += Math.min(row.wish, row.deficit);
  }
  const amount =
    own.wish > 0
      ? Math.min(own.wish, Math.max(Math.min(free, own.deficit), free - wishedBelowShare))
      : Math.min(own.deficit, free - wished);
  if (amount <= 0) return 0;
  own.delta += amount;
  own.wish = Math.max(0, own.wish - amount);
  own.deficit = Math.max(0, own.deficit - amount);
  return amount;
}
