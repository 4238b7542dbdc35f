/** A gateway that runs for all tests of a file, and raw connections to it. */

import { afterAll, beforeAll } from "bun:test";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { openRawClient, type RawClient, type RawResponse } from "./raw-client.ts";

export interface TestServer {
  readonly gateway: RunningGateway;
  /** The last connection. */
  readonly client: RawClient;
  /** Opens a new connection and closes the last one. */
  connect(): Promise<RawClient>;
  /** Sends the request on a separate connection. */
  sendAlone(request: string | Uint8Array): Promise<RawResponse>;
}

export function startServerForTests(options: Parameters<typeof startTestGateway>[0]): TestServer {
  let gateway: RunningGateway | null = null;
  let client: RawClient | null = null;

  beforeAll(async () => {
    gateway = await startTestGateway(options);
  });

  afterAll(async () => {
    client?.close("fin");
    await gateway?.stop();
  });

  function getStarted<T>(value: T | null): T {
    if (value === null) throw new Error("The gateway or the connection is not open yet.");
    return value;
  }

  return {
    get gateway() {
      return getStarted(gateway);
    },
    get client() {
      return getStarted(client);
    },
    async connect() {
      client?.close("fin");
      client = await openRawClient(getStarted(gateway).url);
      return client;
    },
    async sendAlone(request) {
      const alone = await openRawClient(getStarted(gateway).url);
      await alone.send(request);
      const response = await alone.readResponse();
      alone.close("fin");
      return response;
    },
  };
}
