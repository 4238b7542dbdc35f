/** Synthetic log probabilities of output tokens: the same text always has the same ones. */

import { invalid, type Rejection } from "../errors.ts";
import { echoed, intField, isTrue, type JsonFields } from "../json-fields.ts";
import { computeHash, takePrefix } from "./text.ts";

export interface LogProbability {
  token: string;
  logprob: number;
  bytes: number[];
}

export interface TokenLogProbability extends LogProbability {
  /** The most likely first. */
  top_logprobs: LogProbability[];
}

const TOP_MAX = 20;
const TOKEN_CHARS = 4;
const SEED = 7;
const ALTERNATIVES = "the a of to in and is it that for on as with was at by an be this".split(" ");
const INCLUDED = '"message.output_text.logprobs"';

/** Number of alternatives per token; null without log probabilities. */
export function readLogProbabilities(
  fields: JsonFields,
  interfaceName: "chat" | "responses",
): number | null | Rejection {
  const top = echoed(fields, "top_logprobs", "");
  const count = top === "" ? 0 : intField(fields, "top_logprobs");
  if (count === null || count < 0 || count > TOP_MAX) {
    return invalid("top_logprobs", `Invalid 'top_logprobs': expected an integer from 0 to ${TOP_MAX}.`);
  }
  if (interfaceName === "responses") {
    return count > 0 || echoed(fields, "include", "").includes(INCLUDED) ? count : null;
  }
  if (isTrue(fields, "logprobs")) return count;
  if (count > 0) return invalid("top_logprobs", "'top_logprobs' requires 'logprobs' to be true.");
  return null;
}

/** Log probabilities of one piece of a text: the tokens of all pieces add up to the text. */
export function computeLogProbabilities(piece: string, topCount: number): TokenLogProbability[] {
  const list: TokenLogProbability[] = [];
  for (let rest = piece; rest !== ""; ) {
    const token = firstToken(rest);
    rest = rest.slice(token.length);
    const own = describe(token, -((computeHash(SEED, token) % 500) + 1) / 1_000);
    list.push({ ...own, top_logprobs: alternatives(own, topCount) });
  }
  return list;
}

function firstToken(text: string): string {
  const token = takePrefix(text, TOKEN_CHARS);
  return token === "" ? text : token;
}

function alternatives(own: LogProbability, count: number): LogProbability[] {
  if (count === 0) return [];
  const others = ALTERNATIVES.filter((word) => word !== own.token).slice(0, count - 1);
  return [own, ...others.map((word, i) => describe(word, own.logprob - (i + 1)))];
}

function describe(token: string, logprob: number): LogProbability {
  return { token, logprob: Math.round(logprob * 1_000) / 1_000, bytes: [...Buffer.from(token)] };
}
