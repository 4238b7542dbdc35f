/** A receiver of exported usage on a loopback port: keeps the batches and responses as configured. */

export interface ReceivedBatch {
  headers: Headers;
  /** As received, for signatures. */
  text: string;
  records: readonly Readonly<Record<string, unknown>>[];
  ids: string[];
}

export interface UsageReceiver {
  url: string;
  port: number;
  /** In order of arrival, accepted or not. */
  batches: readonly ReceivedBatch[];
  /** Those that were accepted with 2xx. */
  accepted: readonly ReceivedBatch[];
  /** The response from now on. */
  respond(respond: (batch: ReceivedBatch) => Response | Promise<Response>): void;
  stop(): Promise<void>;
}

/** With a port: the same receiver after a restart. */
export function startUsageReceiver(port = 0): UsageReceiver {
  const batches: ReceivedBatch[] = [];
  const accepted: ReceivedBatch[] = [];
  let respond: (batch: ReceivedBatch) => Response | Promise<Response> = () => new Response("ok");
  const server = Bun.serve({
    port,
    hostname: "127.0.0.1",
    async fetch(request) {
      const text = await request.text();
      const lines = text.split("\n").filter((line) => line !== "");
      const records = lines.map((line): Record<string, unknown> => JSON.parse(line));
      const ids = records.map((record) => String(record.request_id));
      const batch = { headers: request.headers, text, records, ids };
      batches.push(batch);
      const { signal } = request;
      const response = await respond(batch);
      if (response.ok && !signal.aborted) accepted.push(batch);
      return response;
    },
  });
  const { port: opened = 0 } = server;
  return {
    url: `http://127.0.0.1:${opened}/usage`,
    port: opened,
    batches,
    accepted,
    respond(next) {
      respond = next;
    },
    stop: () => server.stop(true),
  };
}
