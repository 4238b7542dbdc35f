/** Calls and replies as lists of numbers, as the functions on servers take and return them. Positions begin at 1. */

import type {
  AskResult,
  DeclareCall,
  ExchangeCall,
  ExchangeReply,
  LimitNote,
  MeterAsk,
  MeterNo,
  MeterState,
  NoteSubject,
  RecordRef,
  RecordState,
} from "./protocol.ts";
import { nameRecord, parseRecordName } from "./record-name.ts";

export interface FlatRecords {
  readonly ids: readonly string[];
  /** 0 for rates. */
  readonly pers: readonly number[];
  readonly revisions: readonly number[];
  /** Three for each record; -1: no limit. */
  readonly limits: readonly number[];
}

interface FlatExchange extends FlatRecords {
  /** For each item: meter, used, returned, confirms. The items of record i end at `itemEnds[i]`. */
  readonly items: readonly number[];
  readonly itemEnds: readonly number[];
  /** For each refund: meter, bucket, amount. */
  readonly refunds: readonly number[];
  readonly refundEnds: readonly number[];
  readonly modes: readonly number[];
  readonly keys: readonly string[];
  /** For each want: record, meter, least, need, most. */
  readonly wants: readonly number[];
  readonly wantEnds: readonly number[];
}

const MODES: readonly MeterAsk["mode"][] = ["wait", "final", "refill"];
const NONE = -1;

function flattenRecords(records: readonly RecordRef[]): FlatRecords {
  return {
    ids: records.map(nameRecord),
    pers: records.map(({ perMs }) => perMs ?? 0),
    revisions: records.map(({ revision }) => revision),
    limits: records.flatMap(({ limits }) => limits.map((limit) => limit ?? NONE)),
  };
}

export function flattenExchange({ records, items, asks }: ExchangeCall): FlatExchange {
  const itemsByRecord: number[][] = records.map(() => []);
  const refundsByRecord: number[][] = records.map(() => []);
  for (const { record, meter, used, refunds, returned, confirms } of items) {
    itemsByRecord[record]?.push(meter + 1, used, returned, confirms);
    for (const [bucketNo, amount] of refunds) refundsByRecord[record]?.push(meter + 1, bucketNo, amount);
  }
  const wantsByAsk = asks.map(({ wants }) =>
    wants.flatMap(({ record, meter, least, need, most }) => [record + 1, meter + 1, least, need, most]),
  );
  return {
    ...flattenRecords(records),
    items: itemsByRecord.flat(),
    itemEnds: listEnds(itemsByRecord),
    refunds: refundsByRecord.flat(),
    refundEnds: listEnds(refundsByRecord),
    modes: asks.map(({ mode }) => MODES.indexOf(mode)),
    keys: asks.map(({ key }) => key),
    wants: wantsByAsk.flat(),
    wantEnds: listEnds(wantsByAsk),
  };
}

interface FlatDeclaration extends FlatRecords {
  /** For each holding: record, meter, amount. */
  readonly holdings: readonly number[];
  /** For each use: record, meter, age, amount. */
  readonly uses: readonly number[];
}

export function flattenDeclaration({ records, holdings }: DeclareCall): FlatDeclaration {
  return {
    ...flattenRecords(records),
    holdings: holdings.flatMap(({ record, meter, lent }) => [record + 1, meter + 1, lent]),
    uses: holdings.flatMap(({ record, meter, usedAgo }) =>
      usedAgo.flatMap(([agoMs, amount]) => [record + 1, meter + 1, Math.max(0, Math.floor(agoMs)), amount]),
    ),
  };
}

function listEnds(lists: readonly (readonly number[])[]): number[] {
  let end = 0;
  return lists.map(({ length }) => {
    end += length;
    return end;
  });
}

interface FlatReply {
  readonly status: string;
  readonly nowMs: number;
  readonly isOpen: boolean;
  /** Comma-separated. */
  readonly states: string;
  readonly results: string;
}

export function parseReply({ status, nowMs, isOpen, states, results }: FlatReply): ExchangeReply {
  if (status === "gone" || status === "declare") return { kind: status };
  if (status !== "ok") throw new Error(`The coordinator returned an unknown status: ${status}`);
  return {
    kind: "ok",
    nowMs,
    isOpen,
    states: inGroups(parseNumbers(states), STATE_NUMBERS).map(toState),
    results: inGroups(parseNumbers(results), RESULT_NUMBERS).map(toResult),
  };
}

const METER_NUMBERS = 5;
const STATE_NUMBERS = 1 + 3 * METER_NUMBERS;
const RESULT_NUMBERS = 3;

function parseNumbers(text: string): number[] {
  return text === "" ? [] : text.split(",").map(Number);
}

function inGroups(numbers: readonly number[], size: number): number[][] {
  const groups: number[][] = [];
  for (let start = 0; start < numbers.length; start += size) groups.push(numbers.slice(start, start + size));
  return groups;
}

function toState([bucketNo = 0, ...numbers]: readonly number[]): RecordState {
  const at = (meter: MeterNo) => toMeterState(numbers.slice(METER_NUMBERS * meter));
  return { bucketNo, meters: [at(0), at(1), at(2)] };
}

function toMeterState([
  lent = 0,
  free = 0,
  used = 0,
  resetMs = 0,
  others = 0,
]: readonly number[]): MeterState {
  return { lent, free, used, resetMs, hasOthersWaiting: others === 1 };
}

function toResult([kind, lacks = NONE, freesInMs = NONE]: readonly number[]): AskResult {
  switch (kind) {
    case 0:
      return { kind: "granted" };
    case 1:
      return { kind: "waiting", lacks };
    case 2:
      return { kind: "refused", lacks, freesInMs: freesInMs === NONE ? null : freesInMs };
    case 3:
      return { kind: "closed" };
    case 4:
      return { kind: "repeated" };
    default:
      throw new Error(`The coordinator returned an unknown result: ${kind}`);
  }
}

/** Passes on the notes that this version knows. */
export function readNotes(onNote: (note: LimitNote) => void): (payload: string) => void {
  return (payload) => {
    const note = parseNote(payload);
    if (note !== null) onNote(note);
  };
}

function parseNote(payload: string): LimitNote | null {
  const parsed = parseJson(payload);
  if (!Array.isArray(parsed)) return null;
  const [term, name, meter, what, value] = parsed as unknown[];
  if (typeof term !== "string" || typeof name !== "string" || typeof value !== "string") return null;
  const record = parseRecordName(name);
  const about = toSubject(what, value);
  if (record === null || about === null || (meter !== 0 && meter !== 1 && meter !== 2)) return null;
  return { term, record, meter, about };
}

function toSubject(what: unknown, value: string): NoteSubject | null {
  if (what === "r") return { kind: "recall", no: Number(value) };
  if (what === "g") return { kind: "grant", key: value };
  return what === "f" ? { kind: "final", key: value } : null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
