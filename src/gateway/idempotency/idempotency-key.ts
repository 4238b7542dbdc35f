/** Reads `Idempotency-Key` and builds the errors for repeats (billing/idempotency/idempotency.ts). */

import { nextTurn } from "../../base/next-turn.ts";
import type { IdempotencyStart } from "../../billing/idempotency/idempotency.ts";
import { ApiError, paramError } from "../../errors.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";

const HEADER = "idempotency-key";
const FORM = /^[\x21-\x7e]{1,255}$/;
const RETRY_SECONDS = 2;
const HASHED_BYTES_PER_TURN = 1024 * 1024;

/** Returns null without the header: such a request has no cost here. */
export function readIdempotencyKey(headers: HeaderReader): string | null {
  const token = headers.get(HEADER);
  if (token === null) return null;
  if (!FORM.test(token)) {
    throw paramError(
      HEADER,
      "invalid_value",
      "The header Idempotency-Key must be 1 to 255 visible ASCII characters, such as a UUID.",
    );
  }
  return token;
}

interface Fingerprint {
  add(part: string | Uint8Array): Fingerprint;
  /** The same for a long part, in slices. */
  addInTurns(part: Uint8Array): Promise<Fingerprint>;
  end(): string;
}

/** A JSON body is one part. A form is added by field, because clients choose a new boundary each time. */
export function computeFingerprint(endpoint: string): Fingerprint {
  const hasher = new Bun.CryptoHasher("sha256");
  const fingerprint: Fingerprint = {
    add(part) {
      // The length prefix prevents different parts from producing the same input.
      const bytes = typeof part === "string" ? Buffer.from(part) : part;
      hasher.update(`${bytes.length}:`);
      hasher.update(bytes);
      return fingerprint;
    },
    async addInTurns(part) {
      hasher.update(`${part.length}:`);
      for (let at = 0; at < part.length; at += HASHED_BYTES_PER_TURN) {
        if (at > 0) await nextTurn();
        hasher.update(part.subarray(at, at + HASHED_BYTES_PER_TURN));
      }
      return fingerprint;
    },
    end: () => hasher.digest("base64url"),
  };
  return fingerprint.add(endpoint);
}

export function repeatError(start: Exclude<IdempotencyStart, { kind: "new" }>): ApiError {
  switch (start.kind) {
    case "running":
      return new ApiError(
        "idempotency_in_progress",
        `The request ${start.requestId} with this Idempotency-Key is still in flight. Send the same request again after Retry-After.`,
        { param: HEADER, headers: { "retry-after": String(RETRY_SECONDS) } },
      );
    case "done":
      return new ApiError(
        "idempotency_response_gone",
        `The request ${start.requestId} with this Idempotency-Key has ended, but its response is not stored. The request was not sent again. To send it again, use a new key.`,
        // OpenAI's client retries every 409 otherwise.
        { param: HEADER, headers: { "x-should-retry": "false" } },
      );
    case "other_body":
      return paramError(
        HEADER,
        "idempotency_key_reused",
        `This Idempotency-Key was used for the request ${start.requestId}, which had different content. Use a new key for each request.`,
      );
  }
}
