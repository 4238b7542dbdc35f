/** Reads the values of a source row. A value of an unexpected form makes the row bad: it is reported and skipped. */

import { limits } from "../../config/limits/product-limits.ts";
import { parseDecimal } from "../../money/nano.ts";
import { cleanText } from "./imported.ts";
import type { SourceTable } from "./source-table.ts";

/** The message never contains the value, which may be a secret. */
export class BadRow extends Error {
  override readonly name = "BadRow";
}

type JsonObject = Readonly<Record<string, unknown>>;

export class SourceRow {
  readonly #table: Pick<SourceTable, "key" | "isKeySecret">;
  readonly #cells: ReadonlyMap<string, string | null>;

  constructor(table: Pick<SourceTable, "key" | "isKeySecret">, cells: ReadonlyMap<string, string | null>) {
    this.#table = table;
    this.#cells = cells;
  }

  get id(): string {
    return this.requireText(this.#table.key);
  }

  /** For reports. */
  get shownId(): string {
    const id = this.#cells.get(this.#table.key) ?? "(null)";
    return this.#table.isKeySecret ? `${id.slice(0, 8)}…` : cleanText(id.slice(0, 64));
  }

  /** Null if the column is null or empty, or if the source has no such column. */
  text(column: string): string | null {
    const cell = this.#cells.get(column) ?? null;
    if (cell !== null && cell.length > limits.importTextCharsMax)
      throw new BadRow(`${column} is longer than ${limits.importTextCharsMax} characters`);
    return cell === "" ? null : cell;
  }

  requireText(column: string): string {
    return this.text(column) ?? this.#reject(column, "is empty");
  }

  integer(column: string): number | null {
    const text = this.text(column);
    if (text === null) return null;
    const value = Number(text);
    return /^-?\d+$/.test(text) && Number.isSafeInteger(value)
      ? value
      : this.#reject(column, "is not a whole number");
  }

  /** For amounts, which may be above the safe integers. */
  bigInteger(column: string): bigint | null {
    const text = this.text(column);
    if (text === null) return null;
    return /^-?\d{1,40}$/.test(text) ? BigInt(text) : this.#reject(column, "is not a whole number");
  }

  flag(column: string): boolean {
    const text = this.text(column)?.toLowerCase() ?? null;
    if (text === null || ["0", "false", "f"].includes(text)) return false;
    return ["1", "true", "t"].includes(text) || this.#reject(column, "is neither true nor false");
  }

  /** Whole units of the tenth power, such as 9 for nano-dollars. Digits below are cut off, never rounded up. */
  decimal(column: string, decimals: number): bigint | null {
    const text = this.text(column);
    if (text === null) return null;
    const match = /^(-?)(\d{1,24})(?:\.(\d{0,30}))?$/.exec(plainNumber(text));
    if (match === null) return this.#reject(column, "is not a decimal number");
    const [, sign, whole = "0", fraction = ""] = match;
    const value = parseDecimal(
      `${whole}.${fraction.slice(0, decimals).padEnd(1, "0")}`,
      Math.max(decimals, 1),
    );
    return sign === "-" ? -value : value;
  }

  /** Null if not set. A time without a zone is UTC. */
  instantMs(column: string): number | null {
    const text = this.text(column);
    if (text === null) return null;
    const iso = text.replace(" ", "T");
    const ms = Date.parse(/(?:Z|[+-]\d\d(?::?\d\d)?)$/.test(iso) ? iso : `${iso}Z`);
    return Number.isNaN(ms) ? this.#reject(column, "is not a time") : ms;
  }

  /** A JSON list of texts. */
  list(column: string): string[] {
    const value = this.#json(column) ?? [];
    return Array.isArray(value) && value.every((one): one is string => typeof one === "string")
      ? value
      : this.#reject(column, "is not a list of texts");
  }

  object(column: string): JsonObject {
    const value = this.#json(column) ?? {};
    return typeof value === "object" && !Array.isArray(value)
      ? { ...value }
      : this.#reject(column, "is not a JSON object");
  }

  hasEntries(column: string): boolean {
    const value = this.#json(column);
    return typeof value === "object" && value !== null && Object.keys(value).length > 0;
  }

  #json(column: string): unknown {
    const text = this.text(column);
    if (text === null) return null;
    try {
      return JSON.parse(text);
    } catch {
      return this.#reject(column, "is not JSON");
    }
  }

  #reject(column: string, reason: string): never {
    throw new BadRow(`${column} ${reason}`);
  }
}

/** `1e-05`, which databases print for small doubles, without its exponent. */
function plainNumber(text: string): string {
  const match = /^(-?)(\d+)(?:\.(\d+))?e([+-]?\d{1,2})$/i.exec(text);
  if (match === null) return text;
  const [, sign = "", whole = "", fraction = "", power = "0"] = match;
  const digits = `${whole}${fraction}`;
  const point = whole.length + Number(power);
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  return `${sign}${digits.slice(0, point).padEnd(point, "0")}.${digits.slice(point)}`;
}
