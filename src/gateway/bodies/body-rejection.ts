/** The reasons why a body is rejected. */

export type BodyRejection =
  | {
      ok: false;
      reason:
        | "too_large"
        | "unsupported_encoding"
        | "bad_encoding"
        | "too_dense"
        | "bad_framing"
        | "aborted"
        | "idle_timeout";
      /** A sentence for the client. */
      message: string;
    }
  | { ok: false; reason: "no_room"; of: "memory" | "disk"; retryAfterSeconds: number };

export function aborted(): BodyRejection {
  return {
    ok: false,
    reason: "aborted",
    message: "The connection was closed before the request body was complete.",
  };
}

export function badFraming(reason: string): BodyRejection {
  return {
    ok: false,
    reason: "bad_framing",
    message: `The request body does not match its Transfer-Encoding: ${reason}.`,
  };
}

export function tooLarge(bytesMax: number): BodyRejection {
  return { ok: false, reason: "too_large", message: `The request body is larger than ${bytesMax} bytes.` };
}

export function inTooManyChunks(): BodyRejection {
  return {
    ok: false,
    reason: "too_large",
    message: "The request body has too many small chunks. Send larger chunks.",
  };
}

export function idle(bytesPerSecondMin: number): BodyRejection {
  const kibibytes = Math.ceil(bytesPerSecondMin / 1024);
  return {
    ok: false,
    reason: "idle_timeout",
    message: `The request body arrived too slowly. Send at least ${kibibytes} KiB per second, without long pauses.`,
  };
}

export function noMemory(retryAfterSeconds: number, of: "memory" | "disk" = "memory"): BodyRejection {
  return { ok: false, reason: "no_room", of, retryAfterSeconds };
}

/** The body decompresses to more than its compressed size allows. */
export function tooDense(ratioMax: number): BodyRejection {
  return {
    ok: false,
    reason: "too_dense",
    message: `The request body expands to more than ${ratioMax} times its compressed size. Send it without Content-Encoding.`,
  };
}

export function badEncoding(): BodyRejection {
  return {
    ok: false,
    reason: "bad_encoding",
    message: "The request body does not match its Content-Encoding.",
  };
}

export function unsupportedEncoding(): BodyRejection {
  return {
    ok: false,
    reason: "unsupported_encoding",
    message: "Content-Encoding must be gzip, deflate, br or zstd (one of them, once), or absent.",
  };
}
