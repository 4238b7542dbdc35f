/** The description of a table of another gateway. */

/** A table of the source, as far as the import knows it. Columns that a version lacks are read as null. */
export interface SourceTable {
  readonly name: string;
  /** Identifies a row. */
  readonly key: string;
  /** The key is a secret or its hash, so reports have its beginning only. */
  readonly isKeySecret?: true;
  /** With the key, makes the order of rows unique, if the key alone does not. */
  readonly orderBy?: string;
  readonly required: readonly string[];
  readonly optional?: readonly string[];
  /** Columns without a meaning here. Others that the table has are reported. */
  readonly ignored?: readonly string[];
}

/** A table of what requests cost, by request or by day. */
export interface SpendingTable {
  readonly name: string;
  readonly time: string;
  /** Seconds since 1970; otherwise a date or a timestamp. */
  readonly isTimeInSeconds?: true;
  readonly amount: string;
  /** A column and its value in rows that count; left out if all rows do. */
  readonly only?: readonly [column: string, value: number];
}
