/** Divides a limit over the nodes of an installation. Every node computes the same result without asking another one. */

import { isLongWindow } from "./meter-names.ts";

/** What a node held under an earlier list of members. It bounds what the node may still use. */
export interface EarlierTerms {
  readonly members: readonly string[];
  /** Deviations from the shares, by meter. */
  readonly deltas: Readonly<Record<string, number>>;
  /** The limits to which the deviations refer: what is divided of a long window changes with the members. */
  readonly limits?: Readonly<Record<string, number>>;
  /** The process has ended: it never takes back what it gave. */
  readonly hasEnded?: boolean;
}

/** The list of members, and the nodes that have not confirmed it because they are lost. */
export interface ShareTerms {
  readonly members: readonly string[];
  readonly unconfirmed: Readonly<Record<string, EarlierTerms>>;
}

/**
 * The shares of all members add up to the limit exactly, also if it is smaller than their number. The remainder of the
 * division goes to the first members in rendezvous order, so that small limits are spread over all nodes.
 */
export function computeShare(
  limit: number,
  members: readonly string[],
  { node, meter }: { node: string; meter: string },
): number {
  if (!members.includes(node)) return 0;
  const remainder = limit % members.length;
  const equal = (limit - remainder) / members.length;
  if (remainder === 0) return equal;
  const own = computeRank(meter, node);
  let before = 0;
  for (const member of members) {
    if (member === node) continue;
    const rank = computeRank(meter, member);
    if (rank < own || (rank === own && member < node)) before += 1;
  }
  return before < remainder ? equal + 1 : equal;
}

/**
 * How much a node without a row deviates from its share. A lost node may still use what it held under the
 * earlier list; the others hold less by as much.
 */
export function computeDefaultDelta(
  { members, unconfirmed }: ShareTerms,
  limit: number,
  { node, meter }: { node: string; meter: string },
): number {
  let excess = 0;
  let lostCount = 0;
  for (const lost in unconfirmed) {
    const earlier = unconfirmed[lost];
    if (earlier === undefined || !members.includes(lost)) continue;
    const subject = { node: lost, meter };
    const earlierLimit = earlier.limits?.[meter];
    const held =
      computeShare(Math.max(limit, earlierLimit ?? limit), earlier.members, subject) +
      (earlier.deltas[meter] ?? 0);
    const deviation = held - computeShare(limit, members, subject);
    const isExact = earlierLimit !== undefined || !isLongWindow(meter);
    const over = earlier.hasEnded === true && isExact ? deviation : Math.max(0, deviation);
    if (lost === node) return over;
    excess += over;
    lostCount += 1;
  }
  if (excess <= 0) return 0;
  const part = Math.ceil(excess / Math.max(1, members.length - lostCount));
  // A node cannot hold less than nothing. If the part exceeds its share, it exceeds those of all others as well.
  return -Math.min(part, computeShare(limit, members, { node, meter }));
}

/** What a node held under earlier terms, which bounds what it may use until all nodes have prepared the next ones. */
export interface Bound {
  readonly terms: ShareTerms;
  readonly deltas: ReadonlyMap<string, number>;
}

export function boundByShares(members: readonly string[]): Bound {
  return { terms: { members, unconfirmed: {} }, deltas: new Map() };
}

export function computeBound(
  { terms, deltas }: Bound,
  limit: number,
  subject: { node: string; meter: string },
): number {
  const delta = deltas.get(subject.meter) ?? Math.min(0, computeDefaultDelta(terms, limit, subject));
  return computeShare(limit, terms.members, subject) + delta;
}

function computeRank(meter: string, node: string): number {
  return Bun.hash.xxHash32(`${node} ${meter}`);
}
