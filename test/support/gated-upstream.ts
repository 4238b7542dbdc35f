/** An upstream whose chat streams send one word and then wait for the test, so that open streams can be counted. */

const chunk = (delta: object, finish: string | null) =>
  `data: ${JSON.stringify({
    id: "chatcmpl-gated",
    object: "chat.completion.chunk",
    created: 1,
    model: "gated-upstream-model",
    choices: [{ index: 0, delta, finish_reason: finish }],
  })}\n\n`;

export interface GatedUpstream {
  /** As an account's `base_url`. */
  url: string;
  /** Streams that have begun and not ended. */
  open(): number;
  /** The received bodies, in order. */
  bodies: readonly string[];
  /** Lets every stream finish, including later ones. */
  release(): void;
  stop(): Promise<void>;
}

export function startGatedUpstream(): GatedUpstream {
  const gate = Promise.withResolvers<void>();
  const bodies: string[] = [];
  let open = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      bodies.push(await request.text());
      return new Response(gatedStream(), { headers: { "content-type": "text/event-stream" } });
    },
  });

  async function* gatedStream(): AsyncGenerator<string> {
    open++;
    try {
      yield chunk({ role: "assistant", content: "first " }, null);
      await gate.promise;
      yield chunk({ content: "last" }, null);
      yield chunk({}, "stop");
      yield "data: [DONE]\n\n";
    } finally {
      open--;
    }
  }

  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    open: () => open,
    bodies,
    release: gate.resolve,
    async stop() {
      gate.resolve();
      await server.stop(true);
    },
  };
}
