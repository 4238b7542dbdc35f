/** Lines of a CSV file, as RFC 4180 has them. */

export function csvLine(values: readonly (string | number | boolean | null)[]): string {
  return `${values.map(cell).join(",")}\r\n`;
}

/** Spreadsheets take a text that begins like this for a formula, and would run it. */
const FORMULA = /^[=+\-@\t\r\n|%]/;

function cell(value: string | number | boolean | null): string {
  if (value === null) return "";
  if (typeof value !== "string") return String(value);
  const safe = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const NUMBER = /^-?\d+(\.\d+)?$/;
