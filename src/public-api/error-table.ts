/** The table of error codes in `docs/errors.md`. */

import { type ApiErrorCode, ERROR_CODES, errorStatus, UPSTREAM_CODES } from "../errors.ts";
import { ERROR_GUIDE } from "./error-guide.ts";
import { type Advice, UPSTREAM_GUIDE } from "./upstream-codes.ts";

/** The rows of the table, one per code: codes of the gateway by status, then codes of upstreams. */
export function errorRows(): string[] {
  return [
    ...ERROR_CODES.map((code) => formatRow(code, ERROR_GUIDE[code])),
    ...UPSTREAM_CODES.map((code) => formatRow(code, UPSTREAM_GUIDE[code])),
  ];
}

function formatRow(code: ApiErrorCode, { why, todo, retry }: Advice): string {
  return `| ${errorStatus(code)} | \`${code}\` | ${why} | ${todo} | ${retry} |`;
}
