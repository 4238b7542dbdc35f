/**
 * One JSON line an event, on standard error. Callers pass named fields only; bodies, credentials and
 * upstream texts are never among them.
 */

export type LogFields = Readonly<Record<string, string | number | boolean | null>>;

export interface Log {
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
}

const SECRET_SHAPES = /\b(?:gwk_|sk-)[A-Za-z0-9_-]{8,}|\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+/g;

export function openLog(nowMs: () => number, write: (line: string) => void): Log {
  function line(level: string, event: string, fields: LogFields | undefined): void {
    const text = JSON.stringify({ time: new Date(nowMs()).toISOString(), level, event, ...fields });
    // The field list is the first guard; this is the second, for a secret inside somebody's message.
    write(`${text.replace(SECRET_SHAPES, "[redacted]")}\n`);
  }
  return {
    info: (event, fields) => line("info", event, fields),
    warn: (event, fields) => line("warn", event, fields),
    error: (event, fields) => line("error", event, fields),
  };
}

/** A bug of ours. The client is given the request id, where there is one, and here is what stands behind it. */
export function logFault(
  log: Log,
  requestId: string | null,
  thrown: unknown,
  clientRequestId: string | null = null,
): void {
  log.error("request_failed", {
    request_id: requestId,
    client_request_id: clientRequestId,
    reason: thrown instanceof Error ? (thrown.stack ?? thrown.message) : "unknown",
  });
}
