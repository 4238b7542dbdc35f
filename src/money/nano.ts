/** Money as whole nano-USD, and decimal text as whole numbers of any unit. No floating point. */

/** A billionth of a US dollar. */
export type Nano = bigint;

const NANO_DECIMALS = 9;

/** "10.00" → 10_000_000_000n. Exact; throws on anything but plain decimals with at most nine digits after the point. */
export function parseUsd(text: string): Nano {
  return text.startsWith("-")
    ? -parseDecimal(text.slice(1), NANO_DECIMALS)
    : parseDecimal(text, NANO_DECIMALS);
}

/** Exact: "10.00", "0.000000123", "-0.50". At least two decimals. */
export function usdText(nano: Nano): string {
  const [whole = "0", fraction = ""] = decimalText(nano, NANO_DECIMALS).split(".");
  return `${whole}.${fraction.padEnd(2, "0")}`;
}

/** The same for an amount of limits, which count in numbers. */
export function roundedUsd(nano: number): string {
  return usdText(BigInt(Math.round(nano)));
}

/** "0.15" with 6 decimals → 150_000n. Not negative; throws instead of losing a digit. */
export function parseDecimal(text: string, decimals: number): bigint {
  const match = /^(\d{1,30})(?:\.(\d{1,30}))?$/.exec(text);
  const fraction = match?.[2] ?? "";
  if (match === null || fraction.length > decimals) {
    throw new Error(`${JSON.stringify(text)} is not a decimal number with at most ${decimals} decimals.`);
  }
  return BigInt(`${match[1]}${fraction.padEnd(decimals, "0")}`);
}

/** The shortest text of the number: one number has one text. */
export function decimalText(value: bigint, decimals: number): string {
  const digits = (value < 0n ? -value : value).toString().padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return `${value < 0n ? "-" : ""}${whole}${fraction === "" ? "" : `.${fraction}`}`;
}
