/** Shared by the commands that move money: the actor, and parsing and formatting of amounts. */

import { type Nano, parseUsd, usdText } from "../money/nano.ts";
import { type Input, misuse } from "./command.ts";
import { operatorName } from "./operator.ts";

/** The actor of a ledger entry created by a command. */
export function cliActor(): string {
  return `cli:${operatorName()}`;
}

export function usdFrom(input: Input, option: string, { signed }: { signed: boolean }): Nano {
  const value = input.require(option);
  try {
    const nano = parseUsd(value.replace(/^\+(?=\d)/, ""));
    if (nano > 0n || (signed && nano !== 0n)) return nano;
  } catch {
    // Reported below.
  }
  const rule = signed ? "an amount in USD, negative to deduct it" : "an amount in USD above zero";
  misuse(`--${option} must be ${rule}, with at most 9 decimals.`, `For example: --${option} 10.00`);
}

export function wholeNumberFrom(input: Input, option: string, fallback: number, max: number): number {
  const value = input.text(option);
  if (value === undefined) return fallback;
  if (!/^[1-9]\d{0,6}$/.test(value) || Number(value) > max)
    misuse(`--${option} must be a whole number from 1 to ${max}.`, `For example: --${option} ${fallback}`);
  return Number(value);
}

/** `$10.00`, `-$2.50` */
export function formatUsd(nano: Nano): string {
  return nano < 0n ? `-$${usdText(-nano)}` : `$${usdText(nano)}`;
}

export function alignDecimalPoints(amounts: readonly string[]): string[] {
  const before = (amount: string) => (amount.includes(".") ? amount.indexOf(".") : amount.length);
  const widest = Math.max(0, ...amounts.map(before));
  return amounts.map((amount) => `${" ".repeat(widest - before(amount))}${amount}`);
}
