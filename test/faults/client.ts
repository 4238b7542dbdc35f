/** A client that keeps its own ledger: what it sent, what it received, and when. */

import { MARKER_HEADERS } from "./killable-gateway.ts";

export interface ClientRequest {
  url: string;
  /** The node that is asked about a background response later; the same one unless set. */
  nextUrl?: () => string;
  key: string;
  family: "chat" | "responses" | "embeddings" | "messages";
  model: string;
  stream: boolean;
  prompt: string;
  /** Leaves then, if the response is not there yet. */
  leaveAfterMs?: number | null;
  more?: object;
  /** It offers searches of the web, with a limit of its own or without. */
  search?: SearchOffer;
  idempotencyKey?: string;
}

export interface SearchOffer {
  readonly max: number | null;
}

export interface ClientRecord {
  marker: string;
  key: string;
  family: ClientRequest["family"];
  model: string;
  stream: boolean;
  prompt: string;
  search: SearchOffer | null;
  /** The response is made in the background, and asked about until its end. */
  isInBackground: boolean;
  sentMs: number;
  sentAtMs: number;
  endedAtMs: number;
  /** How long after sending it left; null if it stayed. */
  leftAfterMs: number | null;
  status: number | null;
  requestId: string | null;
  headers: Headers | null;
  errorCode: string | null;
  /** The whole response, or a terminal event, was there. */
  isWhole: boolean;
  text: string;
  /** Of the text: when how much of it was there. */
  arrivals: { atMs: number; chars: number }[];
}

let markers = 0;
const PATHS = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  embeddings: "/v1/embeddings",
  messages: "/v1/messages",
};
const OUTPUT_TOKENS = 1_000;

export function createClientRecord(asking: ClientRequest): ClientRecord {
  const { key, family, model, stream, prompt, search = null } = asking;
  return {
    marker: `faults-${process.pid}-${++markers}`,
    key,
    family,
    model,
    stream,
    prompt,
    search,
    isInBackground: false,
    sentMs: performance.now(),
    sentAtMs: Date.now(),
    endedAtMs: 0,
    leftAfterMs: null,
    status: null,
    requestId: null,
    headers: null,
    errorCode: null,
    isWhole: false,
    text: "",
    arrivals: [],
  };
}

export async function sendRequest(asking: ClientRequest): Promise<ClientRecord> {
  const { key, family, stream, leaveAfterMs = null } = asking;
  const asked = createClientRecord(asking);
  const leaving = new AbortController();
  const leave = () => {
    asked.leftAfterMs = performance.now() - asked.sentMs;
    leaving.abort();
  };
  const timer = leaveAfterMs === null ? undefined : setTimeout(leave, leaveAfterMs);
  try {
    const response = await fetch(asking.url + PATHS[family], {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        [MARKER_HEADERS[family === "messages" ? "messages" : "openai"]]: asked.marker,
        ...(asking.idempotencyKey === undefined ? {} : { "idempotency-key": asking.idempotencyKey }),
      },
      body: JSON.stringify(buildBody(asking)),
      signal: leaving.signal,
    });
    asked.status = response.status;
    asked.headers = response.headers;
    asked.requestId = response.headers.get("x-request-id");
    if (stream && response.status === 200) await readEvents(response, asked);
    else readWhole(await response.text(), asked);
  } catch {
    // Left, or cut off: what came until then stands.
  }
  clearTimeout(timer);
  asked.endedAtMs = Date.now();
  return asked;
}

function buildBody({ family, model, stream, prompt, search, more: others = {} }: ClientRequest): object {
  const more = { ...others, ...offerSearch(family, search) };
  if (family === "embeddings") return { model, input: prompt, ...more };
  if (family === "responses") return { model, input: prompt, stream, store: false, ...more };
  const body = { model, messages: [{ role: "user", content: prompt }], stream, ...more };
  return family === "messages" ? { ...body, max_tokens: OUTPUT_TOKENS } : body;
}

/** The fields of a body of Responses or Messages that offer it. */
export function offerSearch(family: ClientRequest["family"], search: SearchOffer | undefined): object {
  if (search === undefined) return {};
  const { max } = search;
  if (family === "messages") {
    const tool = { type: "web_search_20250305", name: "web_search" };
    return { tools: [max === null ? tool : { ...tool, max_uses: max }] };
  }
  return { tools: [{ type: "web_search" }], ...(max === null ? {} : { max_tool_calls: max }) };
}

/** Fields of an unknown shape, read as far as they go. */
interface ReceivedFields {
  type?: string;
  delta?: string | { text?: string };
  error?: { code?: string; type?: string } | null;
  response?: { error?: { code?: string } | null };
  code?: string;
  choices?: { delta?: { content?: string } }[];
}

function readWhole(body: string, asked: ClientRecord): void {
  const received: ReceivedFields = JSON.parse(body);
  asked.errorCode = received.error?.code ?? null;
  asked.isWhole = true;
}

const TERMINAL = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
  "message_stop",
  "error",
]);

async function readEvents(response: Response, asked: ClientRecord): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of response.body ?? []) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) readEvent(line.slice(5).trim(), asked);
  }
}

export function readEvent(data: string, asked: ClientRecord): void {
  if (data === "[DONE]") {
    asked.isWhole = true;
    return;
  }
  const received: ReceivedFields = JSON.parse(data);
  if (received.error || TERMINAL.has(received.type ?? "")) asked.isWhole = true;
  asked.errorCode ??= readEventError(received);
  const piece = readText(received);
  if (piece === "") return;
  asked.text += piece;
  asked.arrivals.push({ atMs: performance.now(), chars: asked.text.length });
}

/** An error that comes as an event: the head of the stream was sent while the request waited. */
function readEventError({ type, error, response, code }: ReceivedFields): string | null {
  const reported = error ?? response?.error ?? (type === "error" ? { code } : null);
  return reported == null ? null : (reported.code ?? "unnamed");
}

function readText({ type, delta, choices }: ReceivedFields): string {
  if (type === "response.output_text.delta") return typeof delta === "string" ? delta : "";
  if (type === "content_block_delta") return typeof delta === "object" ? (delta.text ?? "") : "";
  return choices?.[0]?.delta?.content ?? "";
}
