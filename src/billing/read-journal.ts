/** What a successor reads from the lines of a journal (`journal-lines.ts`), those of earlier versions included. */

import { z } from "zod";
import { INTERFACES } from "../records.ts";
import type { Row } from "../store/db.ts";
import { HOLD_STATES, type Hold, UNSENT } from "../store/holds.ts";
import { text } from "../store/row.ts";
import { toUsageRow, type UsageRow } from "../store/usage-row.ts";
import { asStored } from "../store/usage-values.ts";
import type { Settlement } from "./booking.ts";
import { SETTLED_COLUMNS } from "./journal-lines.ts";
import { readJsonLines, type Untaken } from "./json-lines.ts";
import { NameReader } from "./name-lines.ts";
import { RowReader } from "./row-lines.ts";

/** The columns that only a hold tells. */
function heldColumns(hold: Hold): Row {
  return {
    key_id: hold.keyId,
    user_id: hold.userId,
    group_id: hold.groupId,
    interface: hold.interface,
    endpoint: hold.endpoint,
    public_model: hold.publicModel,
    stream: Number(hold.stream),
    payer: "balance",
    tariff_id: hold.tariffId,
  };
}

/** Text where a number would not be exact. */
const nanoOf = z.union([z.string().regex(/^\d{1,19}$/), z.int().min(0)]).transform(BigInt);

/** A name, or its number. */
const named = z.union([z.string(), z.int()]);

const heldShape = z.tuple([
  z.literal("h"),
  z.string(),
  named,
  z.number(),
  named,
  nanoOf,
  named,
  named,
  named,
  z.enum(INTERFACES),
  named,
  named,
  z.boolean(),
  z.number(),
]);
const progressShape = z.tuple([
  z.literal("p"),
  z.string(),
  z.enum(HOLD_STATES),
  named.nullable(),
  named.nullable(),
  z.number(),
]);
const settledShape = z.tuple([z.literal("s"), nanoOf], z.union([z.string(), z.number(), z.null()]));
const columnsShape = z.tuple([z.literal("v")], z.string());

function holdOf([, requestId, ...told]: z.infer<typeof heldShape>, names: NameReader): Hold {
  const [incarnation, atMs, user, amountNano, tariff, key, group, face, endpoint, model, stream, tokens] =
    told;
  return {
    requestId,
    incarnation: names.nameOf(incarnation),
    atMs,
    userId: names.nameOf(user),
    amountNano,
    tariffId: names.nameOf(tariff),
    keyId: names.nameOf(key),
    groupId: names.nameOf(group),
    interface: face,
    endpoint: names.nameOf(endpoint),
    publicModel: names.nameOf(model),
    stream,
    inputTokens: tokens,
    subscriptionId: null,
    ...UNSENT,
  };
}

export interface JournalTold extends Untaken {
  /** Begun and not ended, as far as they had come. */
  open: Hold[];
  /** Ended; the store may know of them, or not. */
  settlements: Settlement[];
  /** Of requests that nobody pays for; the store may know them, or not. */
  rows: UsageRow[];
}

export function readJournal(lines: string): JournalTold {
  const open = new Map<string, Hold>();
  const settlements = new Map<string, Settlement>();
  const rows = new Map<string, UsageRow>();
  const names = new NameReader();
  const rowReader = new RowReader(names);
  let columns: readonly string[] = SETTLED_COLUMNS;

  function take(json: unknown): void {
    switch (Array.isArray(json) ? json[0] : null) {
      case "v":
        columns = columnsShape.parse(json).slice(1);
        return;
      case "n":
        names.take(json);
        return;
      case "w":
        rowReader.takeColumns(json);
        return;
      case "k":
        rowReader.takeKind(json);
        return;
      case "r": {
        const row = rowReader.takeRow(json);
        rows.set(row.requestId, row);
        return;
      }
      case "h": {
        const hold = holdOf(heldShape.parse(json), names);
        if (!settlements.has(hold.requestId)) open.set(hold.requestId, hold);
        return;
      }
      case "p": {
        const [, requestId, state, account, model, outputTokens] = progressShape.parse(json);
        const [accountId, upstreamModel] = [names.nameOrNull(account), names.nameOrNull(model)];
        const hold = open.get(requestId);
        if (hold !== undefined) {
          open.set(requestId, { ...hold, state, accountId, upstreamModel, outputTokens });
        }
        return;
      }
      default: {
        const [, charged, ...values] = settledShape.parse(json);
        const told = asStored(columns, names.resolve(columns, values));
        const hold = open.get(text(told, "request_id"));
        // The segment of its hold is thrown away when the store has it. Earlier versions told all of it here.
        if (hold === undefined && !("key_id" in told)) return;
        const row = toUsageRow(hold === undefined ? told : { ...heldColumns(hold), ...told });
        open.delete(row.requestId);
        settlements.set(row.requestId, { row, chargedNano: charged });
      }
    }
  }

  const untaken = readJsonLines(lines, take);
  return {
    open: [...open.values()],
    settlements: [...settlements.values()],
    rows: [...rows.values()],
    ...untaken,
  };
}
