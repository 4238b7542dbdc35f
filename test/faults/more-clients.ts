/** Clients of the other kinds: turns on a WebSocket, and responses that are made in the background. */

import {
  type ClientRecord,
  type ClientRequest,
  createClientRecord,
  offerSearch,
  readEvent,
} from "./client.ts";
import { MARKER_HEADERS } from "./killable-gateway.ts";

const POLL_MS = 100;
const LOOKED_MAX = 100;

/** One turn on a socket of its own, so that the upgrade's header marks it. */
export function sendBySocket(asking: ClientRequest): Promise<ClientRecord> {
  const { url, key, model, prompt, search } = asking;
  const asked = createClientRecord({ ...asking, family: "responses", stream: true });
  const { promise, resolve } = Promise.withResolvers<ClientRecord>();
  const headers = { authorization: `Bearer ${key}`, [MARKER_HEADERS.openai]: asked.marker };
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/v1/responses`, { headers });
  const end = () => {
    asked.endedAtMs = Date.now();
    socket.close();
    resolve(asked);
  };
  socket.addEventListener("open", () => {
    const body = { model, input: prompt, store: false, ...offerSearch("responses", search) };
    socket.send(JSON.stringify({ type: "response.create", ...body }));
  });
  socket.addEventListener("message", ({ data }) => {
    readEvent(String(data), asked);
    if (!asked.isWhole) return;
    const { type }: { type?: string } = JSON.parse(String(data));
    asked.status = type === "error" ? 500 : 200;
    end();
  });
  socket.addEventListener("error", end);
  socket.addEventListener("close", end);
  return promise;
}

interface SeenResponse {
  status?: string;
  error?: { code?: string } | null;
}

/** The states of a response that has ended. A window of money may cut it. */
const ENDED = new Set(["completed", "incomplete"]);

/** Whole when its end was seen. */
export async function sendInBackground(asking: ClientRequest): Promise<ClientRecord> {
  const { url, nextUrl = () => url, key, model, prompt } = asking;
  const asked = createClientRecord({ ...asking, family: "responses", stream: false });
  asked.isInBackground = true;
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  try {
    const made = await fetch(`${url}/v1/responses`, {
      method: "POST",
      headers: { ...headers, [MARKER_HEADERS.openai]: asked.marker },
      body: JSON.stringify({ model, input: prompt, background: true, store: true }),
    });
    asked.status = made.status;
    asked.requestId = made.headers.get("x-request-id");
    const { id }: { id?: string } = JSON.parse(await made.text());
    for (let looks = 0; looks < LOOKED_MAX && made.ok && !asked.isWhole; looks++) {
      await Bun.sleep(POLL_MS);
      const look = await fetch(`${nextUrl()}/v1/responses/${id}`, { headers }).catch(() => null);
      // The connection broke: looking can be repeated.
      if (look === null) continue;
      const { status, error }: SeenResponse = JSON.parse(await look.text());
      asked.isWhole = ENDED.has(status ?? "");
      asked.errorCode = error?.code ?? null;
    }
  } catch {
    // The connection broke: what was read until then counts.
  }
  asked.endedAtMs = Date.now();
  return asked;
}
