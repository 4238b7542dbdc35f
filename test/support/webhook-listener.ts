/** A webhook receiver on a loopback port: keeps the posted messages and responses as configured. */

import { eventually } from "./eventually.ts";

export interface WebhookPost {
  path: string;
  headers: Headers;
  /** As received, for signatures. */
  text: string;
  body: { type: string; text: string; alert: Record<string, unknown> | null };
}

export interface WebhookListener {
  url: string;
  posts: readonly WebhookPost[];
  /** Waits for a message of this type. */
  next(type: string): Promise<WebhookPost>;
  /** The response from now on. */
  respond(response: () => Response): void;
  stop(): Promise<void>;
}

export function startWebhookListener(): WebhookListener {
  const posts: WebhookPost[] = [];
  let respond = () => new Response("thanks");
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const text = await request.text();
      const { pathname, search } = new URL(request.url);
      posts.push({ path: pathname + search, headers: request.headers, text, body: JSON.parse(text) });
      return respond();
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}/hook?room=ops`,
    posts,
    next: (type) => eventually(() => posts.find(({ body }) => body.type === type)),
    respond(response) {
      respond = response;
    },
    stop: () => server.stop(true),
  };
}
