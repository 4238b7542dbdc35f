/** The lines by which the till tells what it promises. What a successor makes of them is in `read-journal.ts`. */

import type { Hold, HoldProgress } from "../store/holds.ts";
import type { UsageRow } from "../store/usage-row.ts";
import { flagsValue } from "../store/usage-values.ts";
import type { Settlement } from "./booking.ts";
import type { LinePen } from "./line-pen.ts";
import { NameTeller } from "./name-lines.ts";
import { RowTeller, tellCourse } from "./row-lines.ts";

/** What a settlement tells; its hold has told the rest. */
export const SETTLED_COLUMNS = [
  "request_id",
  "at_ms",
  "account_id",
  "upstream_model",
  "status",
  "outcome",
  "error_code",
  "input_tokens",
  "cached_tokens",
  "cache_write_tokens",
  "output_tokens",
  "reasoning_tokens",
  "image_input_tokens",
  "audio_input_tokens",
  "audio_output_tokens",
  "images",
  "usage_source",
  "attempts",
  "first_byte_ms",
  "duration_ms",
  "wait_ms",
  "response_id",
  "upstream_request_id",
  "trace",
  "cost_nano",
  "charged_nano",
  "upstream_nano",
  "flags",
] as const;

/** Writes what one segment tells: others are read without it. */
export class Teller {
  private readonly pen: LinePen;
  private readonly names = new NameTeller();
  private readonly rows = new RowTeller(this.names);

  constructor(pen: LinePen) {
    this.pen = pen;
  }

  /** The first line: what the settlements in the segment tell. */
  begin(): void {
    this.pen.json(["v", ...SETTLED_COLUMNS]);
  }

  recorded(row: UsageRow): void {
    this.rows.tell(row, this.pen);
  }

  held(hold: Hold): void {
    const { pen, names } = this;
    const incarnation = names.numberOf(hold.incarnation, pen);
    const user = names.numberOf(hold.userId, pen);
    const tariff = names.numberOf(hold.tariffId, pen);
    const key = names.numberOf(hold.keyId, pen);
    const group = names.numberOf(hold.groupId, pen);
    const endpoint = names.numberOf(hold.endpoint, pen);
    const model = names.numberOf(hold.publicModel, pen);
    pen.open("h");
    pen.text(hold.requestId);
    pen.number(incarnation);
    pen.number(hold.atMs);
    pen.number(user);
    pen.nano(hold.amountNano);
    pen.number(tariff);
    pen.number(key);
    pen.number(group);
    pen.text(hold.interface);
    pen.number(endpoint);
    pen.number(model);
    pen.flag(hold.stream);
    pen.number(hold.inputTokens);
    pen.close();
  }

  progressed(requestId: string, { state, accountId, upstreamModel, outputTokens }: HoldProgress): void {
    const { pen, names } = this;
    const account = names.numberOrNull(accountId, pen);
    const model = names.numberOrNull(upstreamModel, pen);
    pen.open("p");
    pen.text(requestId);
    pen.text(state);
    pen.number(account);
    pen.number(model);
    pen.number(outputTokens);
    pen.close();
  }

  /** In the order of SETTLED_COLUMNS: to look each of them up by its name would take several times as long. */
  settled({ row, chargedNano }: Settlement): void {
    const { pen, names } = this;
    const account = names.numberOrNull(row.accountId, pen);
    const model = names.numberOrNull(row.upstreamModel, pen);
    pen.open("s");
    pen.nano(chargedNano);
    pen.text(row.requestId);
    pen.number(row.atMs);
    pen.number(account);
    pen.number(model);
    pen.number(row.status);
    pen.text(row.outcome);
    pen.text(row.errorCode);
    pen.number(row.inputTokens);
    pen.number(row.cachedTokens);
    pen.number(row.cacheWriteTokens);
    pen.number(row.outputTokens);
    pen.number(row.reasoningTokens);
    pen.number(row.imageInputTokens);
    pen.number(row.audioInputTokens);
    pen.number(row.audioOutputTokens);
    pen.number(row.images);
    pen.text(row.usageSource);
    pen.number(row.attempts);
    tellCourse(row, pen);
    pen.text(flagsValue(row.flags));
    pen.close();
  }
}
