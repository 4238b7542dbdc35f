/** Numbers and tables as text. */

export const NONE = "–";

export function fixed(value: number | null | undefined, digits: number): string {
  return value === null || value === undefined || Number.isNaN(value) ? NONE : value.toFixed(digits);
}

export function megabytes(bytes: number | undefined): string {
  return bytes === undefined ? NONE : (bytes / 1e6).toFixed(0);
}

/** The first two columns are words, the others numbers. */
export function table(header: string[], rows: string[][], words = 2): string {
  const widths = header.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: string[]) =>
    cells
      .map((cell, i) => (i < words ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
      .join("  ")
      .trimEnd();
  return [line(header), widths.map((width) => "─".repeat(width)).join("  "), ...rows.map(line)].join("\n");
}
