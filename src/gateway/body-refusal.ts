/** Why a body was not taken. */

export type BodyRefusal =
  | {
      ok: false;
      reason:
        | "too_large"
        | "unsupported_encoding"
        | "bad_encoding"
        | "bad_framing"
        | "aborted"
        | "idle_timeout";
      /** A sentence for the client. */
      message: string;
    }
  | { ok: false; reason: "no_room"; retryAfterSeconds: number };

export function aborted(): BodyRefusal {
  return {
    ok: false,
    reason: "aborted",
    message: "The connection closed before the whole body had arrived.",
  };
}

export function badFraming(reason: string): BodyRefusal {
  return {
    ok: false,
    reason: "bad_framing",
    message: `The request body does not follow its Transfer-Encoding: ${reason}.`,
  };
}

export function tooLarge(bytesMax: number): BodyRefusal {
  return { ok: false, reason: "too_large", message: `The request body is larger than ${bytesMax} bytes.` };
}

export function inCrumbs(): BodyRefusal {
  return { ok: false, reason: "too_large", message: "The request body is cut into too many small chunks." };
}

export function idle(): BodyRefusal {
  return { ok: false, reason: "idle_timeout", message: "The request body arrived too slowly." };
}

export function noRoom(retryAfterSeconds: number): BodyRefusal {
  return { ok: false, reason: "no_room", retryAfterSeconds };
}

export function badEncoding(): BodyRefusal {
  return {
    ok: false,
    reason: "bad_encoding",
    message: "The request body is not what its Content-Encoding says.",
  };
}

export function unsupportedEncoding(): BodyRefusal {
  return {
    ok: false,
    reason: "unsupported_encoding",
    message: "Content-Encoding must be gzip, deflate, br or zstd (one of them, once), or absent.",
  };
}
