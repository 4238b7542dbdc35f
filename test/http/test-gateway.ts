/** A gateway for the tests of a file, and clients that come to its door one after the other. */

import { afterAll, beforeAll } from "bun:test";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { openWire, type WireAnswer, type WireClient } from "./raw-client.ts";

export interface Door {
  readonly gateway: RunningGateway;
  /** The one that came last. */
  readonly client: WireClient;
  /** A new client; the one before it leaves. */
  open(): Promise<WireClient>;
  /** On a connection of its own. */
  answerTo(request: string | Uint8Array): Promise<WireAnswer>;
}

export function openDoor(options: Parameters<typeof startTestGateway>[0]): Door {
  let gateway: RunningGateway | null = null;
  let client: WireClient | null = null;

  beforeAll(async () => {
    gateway = await startTestGateway(options);
  });

  afterAll(async () => {
    client?.leave("fin");
    await gateway?.stop();
  });

  function present<T>(one: T | null): T {
    if (one === null) throw new Error("nobody is here yet");
    return one;
  }

  return {
    get gateway() {
      return present(gateway);
    },
    get client() {
      return present(client);
    },
    async open() {
      client?.leave("fin");
      client = await openWire(present(gateway).url);
      return client;
    },
    async answerTo(request) {
      const one = await openWire(present(gateway).url);
      await one.send(request);
      const answer = await one.answer();
      one.leave("fin");
      return answer;
    },
  };
}
