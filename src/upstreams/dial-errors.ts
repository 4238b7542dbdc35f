/** Why a call to an upstream failed before an answer, read from what fetch throws. */

export type DialReason = "bad_url" | "forbidden_address" | "dns_failed" | "dns_timeout";

/** The message is for operators: it names hosts and addresses, never credentials. */
export class DialError extends Error {
  override readonly name = "DialError";
  readonly reason: DialReason;

  constructor(reason: DialReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

export type FetchFailure = "refused" | "dns" | "tls" | "reset" | "timeout" | "aborted" | "unknown";

/** "refused" means that no connection came to be, so nothing was sent: unreachable networks belong here too. */
const FAILURE_BY_CODE: Readonly<Record<string, FetchFailure>> = {
  ECONNREFUSED: "refused",
  EHOSTUNREACH: "refused",
  EHOSTDOWN: "refused",
  ENETUNREACH: "refused",
  ENETDOWN: "refused",
  EADDRNOTAVAIL: "refused",
  ENOTFOUND: "dns",
  ENODATA: "dns",
  ESERVFAIL: "dns",
  ECONNRESET: "reset",
  ECONNABORTED: "reset",
  EPIPE: "reset",
  EPROTO: "tls",
  SELF_SIGNED_CERT_IN_CHAIN: "tls",
  DEPTH_ZERO_SELF_SIGNED_CERT: "tls",
  HOSTNAME_MISMATCH: "tls",
  INVALID_CA: "tls",
  INVALID_PURPOSE: "tls",
  PATH_LENGTH_EXCEEDED: "tls",
  ETIMEDOUT: "timeout",
  ABORT_ERR: "aborted",
};

/** Certificate faults have some fifty codes; these beginnings cover the rest of them. */
const TLS_CODE = /^(CERT_|CRL_|ERR_TLS_|ERR_SSL_|ERROR_IN_CERT_|ERROR_IN_CRL_|UNABLE_TO_)/;

export function classifyFetchError(err: unknown): FetchFailure {
  if (err instanceof DialError) return err.reason.startsWith("dns_") ? "dns" : "unknown";
  if (typeof err !== "object" || err === null) return "unknown";
  // Aborts come as DOMExceptions, whose code is an old number: only their name tells them apart.
  if ("name" in err && err.name === "TimeoutError") return "timeout";
  if ("name" in err && err.name === "AbortError") return "aborted";
  const code = "code" in err ? err.code : undefined;
  if (typeof code !== "string") return "unknown";
  if (TLS_CODE.test(code)) return "tls";
  if (code.startsWith("EAI_")) return "dns";
  return Object.hasOwn(FAILURE_BY_CODE, code) ? (FAILURE_BY_CODE[code] ?? "unknown") : "unknown";
}
