/** Sends one request from the page to the gateway and reports its progress. The key is an argument, not stored. */

import { createParser } from "eventsource-parser";
import { isObject, parsed } from "./json-value.ts";
import { readPictures, readText } from "./response-text.ts";

export interface RunEvent {
  /** Since the request was sent. */
  readonly ms: number;
  readonly name: string;
  readonly data: string;
}

export interface RunProblem {
  readonly code: string;
  /** Empty if the page itself detected the problem: the page has the text. */
  readonly message: string;
  readonly param: string | null;
}

export interface Run {
  readonly state: "running" | "done" | "failed" | "stopped";
  readonly status: number | null;
  readonly requestId: string | null;
  /** The id of a Responses object: another request may continue or retrieve it. */
  readonly responseId: string | null;
  readonly firstMs: number | null;
  readonly totalMs: number | null;
  readonly events: readonly RunEvent[];
  /** The output text so far. */
  readonly text: string;
  /** As URLs that an image element can show. */
  readonly pictures: readonly string[];
  /** The response body, if it is not a stream. */
  readonly response: unknown;
  readonly problem: RunProblem | null;
}

export const NOT_RUN: Run = {
  state: "running",
  status: null,
  requestId: null,
  responseId: null,
  firstMs: null,
  totalMs: null,
  events: [],
  text: "",
  pictures: [],
  response: null,
  problem: null,
};

type OwnProblem = "missing_api_key" | "unusable_api_key" | "unreachable" | "connection_closed";

export function ownProblem(code: OwnProblem): RunProblem {
  return { code, message: "", param: null };
}

export interface RunRequest {
  method: string;
  path: string;
  body: BodyInit | null;
  isJson: boolean;
}

/** Calls `onStep` with every step; the last one has another state than `running`. */
export async function runRequest(
  request: RunRequest,
  key: string,
  signal: AbortSignal,
  onStep: (run: Run) => void,
): Promise<void> {
  const startedMs = performance.now();
  const since = () => performance.now() - startedMs;
  let run = NOT_RUN;
  const next = (change: Partial<Run>) => {
    run = { ...run, ...change };
    onStep(run);
  };
  try {
    const response = await fetch(request.path, {
      method: request.method,
      headers: {
        ...(key === "" ? {} : { authorization: `Bearer ${key}` }),
        ...(request.isJson ? { "content-type": "application/json" } : {}),
      },
      body: request.body,
      signal,
    });
    next({ status: response.status, requestId: response.headers.get("x-request-id") });
    if (response.headers.get("content-type")?.startsWith("text/event-stream") && response.body !== null) {
      const parser = createParser({
        onEvent: ({ event, data }) => next(withEvent(run, { ms: since(), name: event ?? "", data })),
      });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let read = await reader.read(); !read.done; read = await reader.read()) parser.feed(read.value);
    } else {
      next({ ...wholeResponse(response.ok, await response.text()), firstMs: since() });
    }
    next({ state: run.problem === null ? "done" : "failed", totalMs: since() });
  } catch {
    const problem = ownProblem(run.status === null ? "unreachable" : "connection_closed");
    const end: Partial<Run> = signal.aborted ? { state: "stopped" } : { state: "failed", problem };
    next({ ...end, totalMs: since() });
  }
}

/** The state after a whole response. */
export function wholeResponse(isOk: boolean, text: string): Partial<Run> {
  const response = parsed(text) ?? text;
  const problem =
    readProblem(response) ?? (isOk ? null : { code: "", message: text.slice(0, 500), param: null });
  return {
    response,
    text: readText(response),
    pictures: readPictures(response),
    responseId: readResponseId(response),
    problem,
  };
}

/** The state after one more event. */
export function withEvent(run: Run, event: RunEvent): Partial<Run> {
  const value = parsed(event.data);
  const addedText = readText(value);
  const pictures = readPictures(value);
  const isFirst = run.firstMs === null && (addedText !== "" || pictures.length > 0);
  return {
    events: [...run.events, event],
    text: run.text + addedText,
    pictures: [...run.pictures, ...pictures],
    firstMs: isFirst ? event.ms : run.firstMs,
    responseId: run.responseId ?? (isObject(value) ? readResponseId(value.response) : null),
    problem: run.problem ?? readProblem(value),
  };
}

/** Null if the object is not a response, or was not stored. */
function readResponseId(value: unknown): string | null {
  if (!isObject(value) || value.object !== "response" || value.deleted === true) return null;
  return typeof value.id === "string" ? value.id : null;
}

/** Finds the error in an error body, a chunk, a frame or a failed response. */
export function readProblem(value: unknown): RunProblem | null {
  if (!isObject(value)) return null;
  const error = isObject(value.error) ? value.error : isObject(value.response) ? value.response.error : null;
  if (!isObject(error)) return null;
  return {
    code: typeof error.code === "string" ? error.code : "",
    message: typeof error.message === "string" ? error.message : "",
    param: typeof error.param === "string" ? error.param : null,
  };
}
