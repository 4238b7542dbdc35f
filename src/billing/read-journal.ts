/** What a successor reads from the lines of a journal (`journal-lines.ts`), those of earlier versions included. */

import { z } from "zod";
import type { Nano } from "../money/nano.ts";
import { INTERFACES } from "../records.ts";
import type { Row } from "../store/db.ts";
import { HOLD_STATES, type Hold, type HoldProgress, UNSENT } from "../store/holds.ts";
import { text } from "../store/row.ts";
import { toUsageRow, type UsageRow } from "../store/usage-row.ts";
import { asStored } from "../store/usage-values.ts";
import type { Settlement } from "./booking.ts";
import { HoldReader, nanoShape } from "./hold-lines.ts";
import { readJsonLines, type Untaken } from "./json-lines.ts";
import { NameReader, named } from "./name-lines.ts";
import { RowReader } from "./row-lines.ts";

/** The columns that only a hold told, where its end did not tell them again. */
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

const progressShape = z.tuple(
  [z.literal("q"), z.enum(HOLD_STATES), named.nullable(), named.nullable(), z.number()],
  z.string(),
);

/** As earlier versions told it, like all shapes below. */
const heldShape = z.tuple([
  z.literal("h"),
  z.string(),
  named,
  z.number(),
  named,
  nanoShape,
  named,
  named,
  named,
  z.enum(INTERFACES),
  named,
  named,
  z.boolean(),
  z.number(),
]);
const oldProgressShape = z.tuple([
  z.literal("p"),
  z.string(),
  z.enum(HOLD_STATES),
  named.nullable(),
  named.nullable(),
  z.number(),
]);
const settledShape = z.tuple([z.literal("s"), nanoShape], z.union([z.string(), z.number(), z.null()]));
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
  const holdReader = new HoldReader(names);
  let settledColumns: readonly string[] = [];

  function begin(hold: Hold): void {
    if (!settlements.has(hold.requestId)) open.set(hold.requestId, hold);
  }

  function goOn(requestId: string, progress: HoldProgress): void {
    const hold = open.get(requestId);
    if (hold !== undefined) open.set(requestId, { ...hold, ...progress });
  }

  function end(row: UsageRow, chargedNano: Nano): void {
    open.delete(row.requestId);
    settlements.set(row.requestId, { row, chargedNano });
  }

  function take(json: unknown): void {
    switch (Array.isArray(json) ? json[0] : null) {
      case "o":
        for (const reader of [names, rowReader, holdReader]) reader.forget();
        break;
      case "n":
        names.take(json);
        break;
      case "w":
        rowReader.takeColumns(json);
        break;
      case "k":
        rowReader.takeKind(json);
        break;
      case "g":
        holdReader.takeKind(json);
        break;
      case "r": {
        const row = rowReader.takeRow(json);
        rows.set(row.requestId, row);
        break;
      }
      case "e": {
        const row = rowReader.takeRow(json);
        end(row, row.chargedNano);
        break;
      }
      case "b":
        begin(holdReader.takeHold(json));
        break;
      case "q": {
        const [, state, account, model, outputTokens, ...requestIds] = progressShape.parse(json);
        const [accountId, upstreamModel] = [names.nameOrNull(account), names.nameOrNull(model)];
        for (const id of requestIds) goOn(id, { state, accountId, upstreamModel, outputTokens });
        break;
      }
      default:
        takeOld(json);
    }
  }

  /** Lines of earlier versions. */
  function takeOld(json: unknown): void {
    switch (Array.isArray(json) ? json[0] : null) {
      case "v":
        settledColumns = columnsShape.parse(json).slice(1);
        break;
      case "h":
        begin(holdOf(heldShape.parse(json), names));
        break;
      case "p": {
        const [, requestId, state, account, model, outputTokens] = oldProgressShape.parse(json);
        const [accountId, upstreamModel] = [names.nameOrNull(account), names.nameOrNull(model)];
        goOn(requestId, { state, accountId, upstreamModel, outputTokens });
        break;
      }
      default: {
        const [, charged, ...values] = settledShape.parse(json);
        const told = asStored(settledColumns, names.resolve(settledColumns, values));
        const hold = open.get(text(told, "request_id"));
        // The segment of its hold is thrown away when the store has it. The earliest versions told all of it here.
        if (hold === undefined && !("key_id" in told)) return;
        end(toUsageRow(hold === undefined ? told : { ...heldColumns(hold), ...told }), charged);
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
