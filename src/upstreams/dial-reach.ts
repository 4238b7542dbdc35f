import { connect as connectTcp } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Clock } from "../clock.ts";
import type { Target } from "./dial.ts";

/**
 * fetch has no connect timeout of its own: until headers come, a host that is gone looks like a model that is
 * thinking. So when headers are late, the caller asks here. A fresh connection to the same address (TLS
 * handshake included) either comes up, and the call may go on waiting, or it does not within the connect
 * timeout, and the call should be aborted. A call that is answered promptly costs nothing.
 */
export interface Reach {
  isReachable(target: Target): Promise<boolean>;
}

/** Many late calls to one upstream share a probe, and its result for this long. */
const MEMORY_MS = 1_000;
const PROBES_MAX = 1_024;

export function openReach({ clock, connectTimeoutMs }: { clock: Clock; connectTimeoutMs: number }): Reach {
  const probes = new Map<string, { result: Promise<boolean>; untilMs: number }>();

  function isReachable(target: Target): Promise<boolean> {
    const key = `${target.origin} ${target.tls?.serverName ?? ""}`;
    const nowMs = clock.monotonicMs();
    const known = probes.get(key);
    if (known !== undefined && nowMs < known.untilMs) return known.result;
    // Results are short-lived, so forgetting all of them at the bound costs at most one probe each.
    if (probes.size >= PROBES_MAX) probes.clear();
    const entry = { result: probe(target, connectTimeoutMs), untilMs: Number.POSITIVE_INFINITY };
    probes.set(key, entry);
    void entry.result.then(() => {
      entry.untilMs = clock.monotonicMs() + MEMORY_MS;
    });
    return entry.result;
  }

  return { isReachable };
}

function probe(target: Target, connectTimeoutMs: number): Promise<boolean> {
  const url = new URL(target.origin);
  const isTls = url.protocol === "https:";
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = url.port !== "" ? Number(url.port) : isTls ? 443 : 80;
  const servername = target.tls?.serverName;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = isTls
    ? // Nothing is sent here, and the certificate is fetch's business: only silence counts as failure.
      connectTls({
        host,
        port,
        rejectUnauthorized: false,
        ...(servername === undefined ? {} : { servername }),
      })
    : connectTcp({ host, port });
  const timer = setTimeout(resolve, connectTimeoutMs, false);
  socket.once(isTls ? "secureConnect" : "connect", () => resolve(true));
  // Only silence is a black hole. A host that refuses new connections may be finishing the one that waits.
  socket.on("error", () => resolve(true));
  socket.once("close", () => resolve(true));
  return promise.finally(() => {
    clearTimeout(timer);
    socket.destroy();
  });
}
