/** Limits how many messages per second one connection may send. */

import { ApiError } from "../errors.ts";

/** A client that exceeds the limit by this factor is disconnected for abuse. */
const ABUSE_FACTOR = 4;

export class MessageRate {
  readonly #perSecondMax: number;
  #beganMs = Number.NEGATIVE_INFINITY;
  #count = 0;

  constructor(perSecondMax: number) {
    this.#perSecondMax = perSecondMax;
  }

  take(nowMs: number): "taken" | "too_many" | "abuse" {
    if (nowMs - this.#beganMs >= 1_000) {
      this.#beganMs = nowMs;
      this.#count = 0;
    }
    this.#count++;
    if (this.#count <= this.#perSecondMax) return "taken";
    return this.#count <= ABUSE_FACTOR * this.#perSecondMax ? "too_many" : "abuse";
  }
}

export function messageRateError(what: "messages" | "warm-ups", max: number): ApiError {
  return new ApiError(
    "rate_limit_exceeded",
    `More than ${max} ${what} were sent within one second. Send fewer.`,
    {
      headers: { "retry-after": "1" },
    },
  );
}
