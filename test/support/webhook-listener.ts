/** Somebody's webhook on a loopback port: keeps what is posted to it and answers as it is told. */

import { eventually } from "./eventually.ts";

export interface WebhookPost {
  path: string;
  headers: Headers;
  /** As it came, for signatures. */
  text: string;
  body: { type: string; text: string; alert: Record<string, unknown> | null };
}

export interface WebhookListener {
  url: string;
  posts: readonly WebhookPost[];
  /** Waits for one of this type. */
  next(type: string): Promise<WebhookPost>;
  /** What it answers from now on. */
  answer(response: () => Response): void;
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
    answer(response) {
      respond = response;
    },
    stop: () => server.stop(true),
  };
}
