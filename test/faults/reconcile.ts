/**
 * Three ledgers of the same requests: the client's (what was sent and received), the gateway's (rows and charges) and the
 * simulator's (what was really produced). A client knows its row by the response's request id, the simulator knows the
 * client by a header, and a row knows the simulator's entry by the upstream's request id.
 */

import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import type { ClientRecord } from "./client.ts";
import { readMarker } from "./killable-gateway.ts";
import type { PriceOracle } from "./price-oracle.ts";
import type { StepOracle } from "./step-oracle.ts";

export interface Ledgers {
  asked: readonly ClientRecord[];
  rows: readonly UsageRow[];
  truth: readonly LedgerEntry[];
  prices: PriceOracle;
  steps: StepOracle;
  /** By id. */
  groupNames: ReadonlyMap<string, string>;
  /** Keys of unpaid groups: nothing is held, so a request in flight when the process died has no row. */
  unpaidKeys: ReadonlySet<string>;
  /** Whether the machine had time to write checkpoints: then recovered streams are compared with what arrived. */
  isTimed: boolean;
}

/** What must not happen is a list of names; the rest are figures. */
export interface Reconciliation {
  terminalWithoutRow: string[];
  /** The client saw the end before it was booked: the row is an estimate of the successor. */
  terminalBeforeRow: string[];
  producedWithoutRow: string[];
  chargedWithoutUpstream: string[];
  rowTwice: string[];
  wrongTokens: string[];
  wrongCost: string[];
  wrongStep: string[];
  wrongSearches: string[];
  /** Its client got the id of the response, so no process may charge it by estimate. */
  wrongBackground: string[];
  chargedAboveTruth: string[];
  asked: number;
  whole: number;
  unpaidWhole: number;
  left: number;
  cutByKill: number;
  rows: number;
  recovered: number;
  reached: number;
  chargedNano: bigint;
  /** Completed by another step than the first. */
  fellBack: number;
  /** Searches that are charged. */
  searches: number;
  /** Of completed requests: each exactly as the simulator produced it. */
  exact: number;
  /** Streams in flight at the kill: how many seconds of what they had delivered was not charged, each. */
  unchargedSeconds: number[];
  /** Those of more than a second, in words. */
  late: string[];
  unchargedTokens: number;
  /** Of what was recovered, where the client knows its id: the output that is charged, and that was produced. */
  recoveredOutput: { charged: number; produced: number; above: number };
}

export function reconcile(ledgers: Ledgers): Reconciliation {
  const { asked, rows, truth, unpaidKeys, isTimed, steps, groupNames } = ledgers;
  const rowById = new Map(rows.map((row) => [row.requestId, row]));
  const entryById = new Map(truth.map((entry) => [entry.id, entry]));
  const askedById = new Map(asked.flatMap((one) => (one.requestId === null ? [] : [[one.requestId, one]])));
  const askedByMarker = new Map(asked.map((one) => [one.marker, one]));
  const found: Reconciliation = {
    terminalWithoutRow: [],
    terminalBeforeRow: [],
    producedWithoutRow: [],
    chargedWithoutUpstream: [],
    rowTwice: [],
    wrongTokens: [],
    wrongCost: [],
    wrongStep: [],
    wrongSearches: [],
    wrongBackground: [],
    chargedAboveTruth: [],
    asked: asked.length,
    whole: asked.filter(sawTheEnd).length,
    unpaidWhole: asked.filter((one) => sawTheEnd(one) && unpaidKeys.has(one.key)).length,
    left: asked.filter(({ leftAfterMs }) => leftAfterMs !== null).length,
    cutByKill: asked.filter(({ isWhole, leftAfterMs }) => !isWhole && leftAfterMs === null).length,
    rows: rows.length,
    recovered: rows.filter(({ flags }) => flags.includes("recovered")).length,
    reached: new Set(truth.map(readMarker)).size,
    chargedNano: rows.reduce((sum, row) => sum + row.chargedNano, 0n),
    fellBack: rows.filter(({ outcome, fallbackStep }) => outcome === "completed" && fallbackStep !== null)
      .length,
    searches: rows.reduce((sum, row) => sum + (row.chargedNano > 0n ? row.webSearches : 0), 0),
    exact: 0,
    unchargedSeconds: [],
    late: [],
    unchargedTokens: 0,
    recoveredOutput: { charged: 0, produced: 0, above: 0 },
  };

  // A turn on a socket gets no request id: its row is found by that of the upstream.
  const rowByMarker = new Map<string, UsageRow>();
  for (const row of rows) {
    const entry = entryById.get(row.upstreamRequestId ?? "");
    if (entry !== undefined) rowByMarker.set(readMarker(entry), row);
  }
  const reached = new Map(truth.map((entry) => [readMarker(entry), entry]));
  const isPaid = (marker: string) => !unpaidKeys.has(askedByMarker.get(marker)?.key ?? "");
  // Rejections share rows, also if they arrive as an event of a stream that has waited.
  const isRejected = ({ errorCode, marker }: ClientRecord) => errorCode !== null && !reached.has(marker);
  for (const one of asked) {
    if (!sawTheEnd(one) || isRejected(one)) continue;
    const row = rowById.get(one.requestId ?? "") ?? rowByMarker.get(one.marker);
    if (row === undefined) found.terminalWithoutRow.push(`${one.requestId} ${one.model}`);
    else if (row.flags.includes("recovered")) found.terminalBeforeRow.push(`${one.requestId} ${one.model}`);
  }

  for (const one of asked.filter(isBegun)) {
    const row = rowById.get(one.requestId ?? "");
    const entry = reached.get(one.marker);
    if (row === undefined ? isPaid(one.marker) : !isAsProduced(row, entry))
      found.wrongBackground.push(`${one.requestId} ${describeUse(row)}, and ${entry?.outputTokens} produced`);
  }

  // A row without a client that knows its id: the client disconnected, or was cut off, before the response's head.
  const linked = new Set<string>();
  const rowOfEntry = new Map<string, string>();
  const lonely: UsageRow[] = [];
  for (const row of rows) {
    const entry = entryById.get(row.upstreamRequestId ?? "");
    const marker =
      askedById.get(row.requestId)?.marker ?? (entry === undefined ? undefined : readMarker(entry));
    if (entry !== undefined) {
      const other = rowOfEntry.get(entry.id);
      if (other !== undefined) found.rowTwice.push(`${row.requestId} and ${other}`);
      rowOfEntry.set(entry.id, row.requestId);
    }
    if (marker === undefined) lonely.push(row);
    else if (linked.has(marker)) found.rowTwice.push(`${row.requestId} for ${marker}`);
    else linked.add(marker);
    checkAmounts(row, entry, found, ledgers);
    if (entry !== undefined) {
      const client = askedByMarker.get(marker ?? "");
      const served = { row, entry, client, groupName: groupNames.get(row.groupId) };
      const wrongStep = steps.findWrongStep(served);
      if (wrongStep !== null) found.wrongStep.push(`${row.requestId} ${wrongStep}`);
      const wrongSearches = steps.findWrongSearches(served);
      if (wrongSearches !== null) found.wrongSearches.push(`${row.requestId} ${wrongSearches}`);
    }
  }

  const unlinked = [...reached].filter(([marker]) => !linked.has(marker) && isPaid(marker));
  for (const [marker, entry] of unlinked) {
    const id = askedByMarker.get(marker)?.requestId;
    if (id != null && !rowById.has(id)) found.producedWithoutRow.push(`${id} ${entry.model}`);
  }
  // Where the client got no id, only numbers can be compared: each request has a row, and no other row has a charge.
  const nameless = unlinked.filter(([marker]) => (askedByMarker.get(marker)?.requestId ?? null) === null);
  const lonelyCharged = lonely.filter(({ chargedNano }) => chargedNano > 0n);
  const lonelyPaid = lonely.filter(({ payer }) => payer !== null);
  for (let i = lonelyPaid.length; i < nameless.length; i++)
    found.producedWithoutRow.push(`${nameless[i]?.[0]}`);
  for (let i = nameless.length; i < lonelyCharged.length; i++)
    found.chargedWithoutUpstream.push(`${lonelyCharged[i]?.requestId}`);
  for (const row of rows) {
    const client = askedById.get(row.requestId);
    if (row.chargedNano > 0n && client !== undefined && !reached.has(client.marker))
      found.chargedWithoutUpstream.push(row.requestId);
  }
  // More rows than requests that could have made them.
  const unheard = asked.filter(({ requestId }) => requestId === null).length;
  for (let i = unheard; i < lonely.length; i++)
    found.rowTwice.push(`${lonely[i]?.requestId} belongs to no request`);

  // A recovered row has no id of the upstream: what was produced is found by the marker of its client.
  for (const row of rows) {
    const client = askedById.get(row.requestId);
    if (client === undefined || !row.flags.includes("recovered")) continue;
    const { recoveredOutput } = found;
    const produced = reached.get(client.marker)?.outputTokens ?? 0;
    recoveredOutput.charged += row.outputTokens;
    recoveredOutput.produced += produced;
    recoveredOutput.above += Math.max(0, row.outputTokens - produced);
    if (isTimed && client.stream && client.leftAfterMs === null) addUncharged(row, client, found);
  }
  return found;
}

function sawTheEnd({ isWhole, status }: ClientRecord): boolean {
  return isWhole && status === 200;
}

/** A background response whose client got its id. */
function isBegun({ isInBackground, status, errorCode }: ClientRecord): boolean {
  return isInBackground && status === 200 && errorCode === null;
}

function isAsProduced(row: UsageRow, entry: LedgerEntry | undefined): boolean {
  return (
    row.usageSource === "upstream" &&
    row.inputTokens === entry?.inputTokens &&
    row.outputTokens === entry.outputTokens
  );
}

function describeUse(row: UsageRow | undefined): string {
  return row === undefined
    ? "has no row"
    : `${row.outcome}, ${row.outputTokens} tokens by ${row.usageSource}`;
}

/** Text that is counted in two pieces may be one token more than the whole. */
const PARTIAL_TOKENS_MAX = 1;

/** Models whose reported usage is part of the fault. */
const LIES = new Set<string>(["silent", "absurd"]);

/** Other models are clamped only for their searches. */
const hasLied = ({ flags, publicModel }: UsageRow) => flags.includes("clamped") && LIES.has(publicModel);

function checkAmounts(
  row: UsageRow,
  entry: LedgerEntry | undefined,
  found: Reconciliation,
  { prices, groupNames }: Pick<Ledgers, "prices" | "groupNames">,
): void {
  const costs = prices.costs(row, groupNames);
  if (!isRightlyCharged(row, costs))
    found.wrongCost.push(`${row.requestId} charged ${row.chargedNano} of ${row.costNano}, not ${costs}`);
  if (entry === undefined || hasLied(row)) return;
  if (row.outputTokens > entry.outputTokens + (row.usageSource === "partial" ? PARTIAL_TOKENS_MAX : 0))
    found.chargedAboveTruth.push(
      `${row.requestId} ${row.publicModel} ${row.outputTokens} > ${entry.outputTokens}, ${row.usageSource}`,
    );
  if (row.outcome !== "completed" || LIES.has(row.publicModel)) return;
  const isExact =
    row.inputTokens === entry.inputTokens &&
    row.outputTokens === entry.outputTokens &&
    row.cachedTokens === entry.cachedTokens;
  if (isExact) found.exact++;
  else
    found.wrongTokens.push(`${row.requestId} ${row.publicModel} ${row.outputTokens} ≠ ${entry.outputTokens}`);
}

function isRightlyCharged(row: UsageRow, costs: readonly bigint[]): boolean {
  const { payer, usageSource, costNano, chargedNano, flags } = row;
  if (payer === null || usageSource === "none") return chargedNano === 0n;
  // Implausible usage is charged at the hold.
  if (hasLied(row)) return true;
  const isCharged = flags.includes("overrun") ? chargedNano <= costNano : chargedNano === costNano;
  return isCharged && costs.includes(costNano);
}

/** How much of the stream's time lies between what is charged and the last that came. */
function addUncharged(row: UsageRow, client: ClientRecord, found: Reconciliation): void {
  const tokens = countTokens(client.text);
  const last = client.arrivals.at(-1);
  if (tokens <= row.outputTokens || last === undefined) {
    found.unchargedSeconds.push(0);
    return;
  }
  found.unchargedTokens += tokens - row.outputTokens;
  const perChar = tokens / client.text.length;
  const first = client.arrivals.find(({ chars }) => chars * perChar > row.outputTokens) ?? last;
  const seconds = (last.atMs - first.atMs) / 1000;
  found.unchargedSeconds.push(seconds);
  if (seconds <= 1) return;
  found.late.push(
    `${row.requestId} ${client.family} ${client.model}: ${seconds.toFixed(2)} s, ${row.outputTokens} of ${tokens} tokens, cut off ${(last.atMs - client.sentMs).toFixed(0)} ms after it was sent`,
  );
}
