/** The log: a JSON line per event, on standard error. Never bodies, credentials or upstream texts. */

export type LogFields = Readonly<Record<string, string | number | boolean | null>>;

export interface Log {
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
}

/** The shapes of every secret that the gateway or an upstream creates. `log.test.ts` creates one of each. */
const SECRET_SHAPES = new RegExp(
  [
    // API keys and personal access tokens; the prefix alone is distinctive.
    "gw[kp]_[A-Za-z0-9_-]{8,}",
    ...[
      "sk-[A-Za-z0-9_-]{8,}",
      "(?<![_-])eyJ[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+",
      // Sessions, one-time links and the administrator token: 256 random bits in base62.
      "[A-Za-z0-9]{43}(?![A-Za-z0-9])",
      // Secrets of second factors, in base32.
      "[A-Z2-7]{32}(?![A-Za-z0-9])",
      // Recovery codes have three groups, redeem codes six.
      "(?<!-)(?:[0-9a-hjkmnp-tv-z]{4}-){2}[0-9a-hjkmnp-tv-z]{4}(?![A-Za-z0-9-])",
      "(?<!-)(?:[0-9A-HJKMNP-TV-Z]{4}-){5}[0-9A-HJKMNP-TV-Z]{4}(?![A-Za-z0-9-])",
    ].map((shape) => `(?<![A-Za-z0-9])${shape}`),
  ].join("|"),
  "g",
);

/** Before the text is JSON: an escaped line break ends in a letter, and would hide a secret's start. */
function redact(_: string, value: unknown): unknown {
  return typeof value === "string" ? redactSecrets(value) : value;
}

export function redactSecrets(text: string): string {
  return text.replace(SECRET_SHAPES, "[redacted]");
}

/** `constants` are in every line: the number of the process, if there are several. */
export function openLog(nowMs: () => number, write: (line: string) => void, constants?: LogFields): Log {
  function line(level: string, event: string, fields: LogFields | undefined): void {
    // Named fields are the first guard; `redact` is the second, for a secret inside a message.
    const time = new Date(nowMs()).toISOString();
    const text = JSON.stringify({ time, level, event, ...constants, ...fields }, redact);
    write(`${text}\n`);
  }
  return {
    info: (event, fields) => line("info", event, fields),
    warn: (event, fields) => line("warn", event, fields),
    error: (event, fields) => line("error", event, fields),
  };
}

export interface RequestLogIds {
  readonly request_id: string | null;
  readonly client_request_id?: string | null;
  /** The id of the distributed trace, if spans are exported. */
  readonly trace_id?: string;
}

/** Logs an internal error. The client receives only the request id, if there is one; the cause is logged here. */
export function logFault(log: Log, ids: RequestLogIds, thrown: unknown): void {
  log.error("request_failed", {
    client_request_id: null,
    ...ids,
    reason: thrown instanceof Error ? (thrown.stack ?? thrown.message) : "unknown",
  });
}
