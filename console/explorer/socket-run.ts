/**
 * Turns over a WebSocket. A browser cannot set a header for it, so the key is sent as a subprotocol. The gateway
 * accepts that from its own pages only, and never selects it in its response.
 */

import { toBase64Url } from "./base64-url.ts";
import { isObject, parsed } from "./json-value.ts";
import { NOT_RUN, ownProblem, type Run, type RunProblem, readProblem, withEvent } from "./run.ts";

export interface TurnSocket {
  /** One turn at a time; calls `onStep` with every step. */
  turn(message: string, onStep: (run: Run) => void): void;
  /** Stops a turn in flight. */
  close(): void;
}

const TERMINAL = new Set(["response.completed", "response.incomplete", "response.failed", "error"]);

/** `onClosed` is called when no more turns can be sent. */
export function openTurnSocket(key: string, onClosed: () => void): TurnSocket {
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/responses`;
  const socket = new WebSocket(address, ["responses", `gateway-key.${toBase64Url(key)}`]);
  let wasOpen = false;
  /** The message of the first turn, until the connection is open. */
  let waiting: string | null = null;
  let startedMs = 0;
  let run: Run = NOT_RUN;
  let onStep: ((run: Run) => void) | null = null;

  function next(change: Partial<Run>): void {
    run = { ...run, ...change };
    onStep?.(run);
  }

  function end(state: Run["state"], problem: RunProblem | null): void {
    next({ state, problem, totalMs: performance.now() - startedMs });
    onStep = null;
  }

  socket.addEventListener("open", () => {
    wasOpen = true;
    if (waiting !== null) socket.send(waiting);
    waiting = null;
  });
  socket.addEventListener("message", ({ data }) => {
    if (onStep === null || typeof data !== "string") return;
    const frame = parseFrame(data);
    next({
      ...withEvent(run, { ms: performance.now() - startedMs, name: frame.type, data }),
      requestId: run.requestId ?? frame.requestId,
      status: run.status ?? frame.status,
    });
    if (TERMINAL.has(frame.type)) end(run.problem === null ? "done" : "failed", run.problem);
  });
  socket.addEventListener("close", () => {
    onClosed();
    if (onStep === null) return;
    if (wasOpen) end("failed", run.problem ?? ownProblem("connection_closed"));
    else void describeRejection(key).then((problem) => end("failed", problem));
  });

  return {
    turn(message, listener) {
      startedMs = performance.now();
      run = NOT_RUN;
      onStep = listener;
      listener(run);
      if (socket.readyState === WebSocket.OPEN) socket.send(message);
      else waiting = message;
    },
    close() {
      if (onStep !== null) end("stopped", null);
      socket.close(1000);
    },
  };
}

/** Browsers hide why an upgrade was rejected. The same request without the upgrade gets the same error. */
async function describeRejection(key: string): Promise<RunProblem> {
  try {
    const response = await fetch("/v1/responses", { headers: { authorization: `Bearer ${key}` } });
    // The key is accepted: this request failed only because it is not an upgrade.
    const isUpgradeMissing = response.headers.has("sec-websocket-version");
    const problem = isUpgradeMissing ? null : readProblem(parsed(await response.text()));
    return problem ?? ownProblem("connection_closed");
  } catch {
    return ownProblem("unreachable");
  }
}

interface Frame {
  type: string;
  status: number | null;
  requestId: string | null;
}

function parseFrame(data: string): Frame {
  const frame = parsed(data);
  if (!isObject(frame)) return { type: "", status: null, requestId: null };
  const headers = isObject(frame.headers) ? frame.headers : {};
  return {
    type: textOr(frame.type) ?? "",
    status: typeof frame.status === "number" ? frame.status : null,
    requestId: textOr(headers["x-request-id"]),
  };
}

function textOr(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
