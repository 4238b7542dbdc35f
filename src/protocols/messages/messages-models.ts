/** Reads the abilities of a Claude model from its name. Names without a version, such as aliases, leave them to the profile. */

import type { AccountProfile } from "../hub/account-profile.ts";

/** `claude-opus-4-7`, `claude-3-5-haiku-20241022`, `anthropic.claude-sonnet-4-20250514-v1:0`. A date is no version. */
const NAME = /claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/;
const FORMAT_FROM = 4.01;
const ADAPTIVE_FROM = 4.06;
const WITHOUT_SAMPLING_FROM = 4.07;
const ONE_SAMPLING_FROM = 4.01;

/** Version 4.7 is 4.07, so that 4.10 is later. Null if the name has none. */
function readVersion(model: string): number | null {
  const [, major, minor = "0"] = NAME.exec(model) ?? [];
  return major === undefined ? null : Number(major) + Number(minor) / 100;
}

/** Earlier models take a budget of thinking tokens, later ones find it themselves. */
export function thinkingStyle(model: string, { thinking }: AccountProfile): AccountProfile["thinking"] {
  const version = readVersion(model);
  if (version === null || (thinking !== "adaptive" && thinking !== "budget")) return thinking;
  return version < ADAPTIVE_FROM ? "budget" : "adaptive";
}

/** Later models reject temperature, top_p and top_k at any value. */
export function acceptsSampling(model: string, { sampling }: AccountProfile): boolean {
  const version = readVersion(model);
  return version === null ? sampling : version < WITHOUT_SAMPLING_FROM;
}

/** Later models reject temperature and top_p in one request. */
export function acceptsBothSampling(model: string): boolean {
  const version = readVersion(model);
  return version === null || version < ONE_SAMPLING_FROM;
}

/** Earlier models cannot enforce a JSON schema. */
export function acceptsFormat(model: string, { jsonSchema }: AccountProfile): boolean {
  const version = readVersion(model);
  return jsonSchema === "native" && (version === null || version >= FORMAT_FROM);
}

const VERSION = "2023-06-01";
/** Rejects sampling for every model. */
const VERSION_WITHOUT_SAMPLING = "2026-10-21";

/** The version of the API for requests that the gateway writes. Servers of other vendors know the first one only. */
export function apiVersion(model: string, profile: AccountProfile): string {
  const isFirst = !model.includes("claude") || acceptsSampling(model, profile);
  return isFirst ? VERSION : VERSION_WITHOUT_SAMPLING;
}
