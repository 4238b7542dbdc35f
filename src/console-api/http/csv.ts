/** Formats lines of a CSV file according to RFC 4180. */

export function csvLine(values: readonly (string | number | boolean | null)[]): string {
  return `${values.map(cell).join(",")}\r\n`;
}

/** Spreadsheets would execute a text that begins with these characters as a formula. */
const FORMULA = /^[=+\-@\t\r\n|%]/;

function cell(value: string | number | boolean | null): string {
  if (value === null) return "";
  if (typeof value !== "string") return String(value);
  const safe = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const NUMBER = /^-?\d+(\.\d+)?$/;
