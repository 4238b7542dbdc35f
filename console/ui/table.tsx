/**
 * Lists. Rows are loaded page by page, and only loaded rows are drawn; on a phone each row is a card with the name of
 * the column before each value.
 */

import type { ReactNode } from "react";
import { useLocation } from "wouter";
import type { Listing } from "../data.ts";
import { useText } from "../text/text.tsx";
import { Button, Link } from "./button.tsx";
import { classes } from "./class.ts";
import { ProblemNotice } from "./notice.tsx";
import { Skeleton } from "./page.tsx";

export interface Column<Row> {
  /** Unique in the table. */
  key: string;
  header: string;
  cell(row: Row): ReactNode;
  /** `end` for numbers, `tools` for buttons; its header is only read aloud. */
  kind?: "primary" | "end" | "tools";
  /** Left out on a phone. */
  isMinor?: boolean;
}

interface TableProps<Row> {
  /** Read aloud before the table. */
  label: string;
  columns: readonly Column<Row>[];
  /** A `useList`, or rows that are complete. */
  rows: Listing<Row> | readonly Row[];
  rowKey(row: Row): string;
  /** The page of the row: the primary cell becomes the link. */
  href?(row: Row): string;
  /** Shown instead of the table if there are no rows. */
  empty: ReactNode;
}

/** The listing of rows that are complete. */
const WHOLE = { isLoading: false, error: null, more: null, retry: () => {} };
const SKELETON_ROWS = ["a", "b", "c", "d", "e"];

export function Table<Row>({ label, columns, rows, rowKey, href, empty }: TableProps<Row>) {
  const listing: Listing<Row> = "rows" in rows ? rows : { ...WHOLE, rows };
  if (listing.error && listing.rows.length === 0) {
    return <ProblemNotice error={listing.error} onRetry={listing.retry} />;
  }
  const more = listing.more && <LoadMore {...listing.more} />;
  if (!listing.isLoading && listing.rows.length === 0) {
    return (
      <div className="table-frame">
        {empty}
        {more}
      </div>
    );
  }
  return (
    <div className="table-frame">
      <div className="table-scroll">
        {/* biome-ignore-start lint/a11y/noRedundantRoles: displayed as cards, the elements lose their meaning for screen readers. */}
        <table className="table cards" role="table" aria-label={label} aria-busy={listing.isLoading}>
          <thead role="rowgroup">
            <tr role="row">
              {columns.map(({ key, header, kind }) => (
                <th key={key} role="columnheader" scope="col" className={kind}>
                  {kind === "tools" ? <span className="unseen">{header}</span> : header}
                </th>
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {listing.isLoading &&
              SKELETON_ROWS.map((row) => <SkeletonTableRow key={row} columns={columns} />)}
            {listing.rows.map((row) => (
              <TableRow key={rowKey(row)} row={row} columns={columns} href={href?.(row)} />
            ))}
          </tbody>
        </table>
        {/* biome-ignore-end lint/a11y/noRedundantRoles: see above. */}
      </div>
      {listing.error && <ProblemNotice error={listing.error} onRetry={listing.retry} />}
      {more}
    </div>
  );
}

function LoadMore({ load, isLoading }: NonNullable<Listing<unknown>["more"]>) {
  const t = useText("kit");
  return (
    <div className="table-more">
      <Button small isBusy={isLoading} onClick={load}>
        {t.loadMore}
      </Button>
    </div>
  );
}

/* biome-ignore-start lint/a11y/noRedundantRoles: displayed as cards, the elements lose their meaning for screen readers. */
function SkeletonTableRow<Row>({ columns }: Pick<TableProps<Row>, "columns">) {
  return (
    <tr role="row">
      {columns.map(({ key, kind }) => (
        <td key={key} role="cell" className={kind}>
          <Skeleton width={kind === "end" ? 48 : "70%"} />
        </td>
      ))}
    </tr>
  );
}

interface TableRowProps<Row> extends Pick<TableProps<Row>, "columns"> {
  row: Row;
  href: string | undefined;
}

function TableRow<Row>({ row, columns, href }: TableRowProps<Row>) {
  const [, go] = useLocation();
  return (
    <tr
      role="row"
      className={classes(href !== undefined && "linked")}
      onClick={(event) => {
        // The keyboard uses the link in the row. A click elsewhere in the row is a convenience.
        if (href !== undefined && !hasOwnClick(event.target)) go(href);
      }}
    >
      {columns.map(({ key, header, cell, kind, isMinor }) => (
        <td key={key} role="cell" className={classes(kind, isMinor && "minor")} data-label={header}>
          {href !== undefined && kind === "primary" ? <Link to={href}>{cell(row)}</Link> : cell(row)}
        </td>
      ))}
    </tr>
  );
}
/* biome-ignore-end lint/a11y/noRedundantRoles: see above. */

/** Whether the click is on a control in the row, or ends a selection of text. */
function hasOwnClick(target: EventTarget): boolean {
  const isControl = target instanceof Element && target.closest("a, button, input, select, label") !== null;
  return isControl || String(getSelection()) !== "";
}
