/** Fallback of turns on a WebSocket: what the client limits with headers of the upgrade, and its network. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { freePort } from "../support/free-port.ts";
import type { PaidGateway } from "../support/paid-gateway.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";
import { openSocketClient } from "../support/turn-client.ts";
import { expectNothingHeld, type FallbackSetup, startFallbackGateway } from "./fallback-gateway.ts";

setDefaultTimeout(60_000);

const stopLater = stopAfterEach(expectNothingHeld);

function start(setup: FallbackSetup = {}, options: object = {}): Promise<PaidGateway> {
  return stopLater(startFallbackGateway(setup, options));
}

/** The result of one turn: the code of its error, or null if a step served it. */
async function readTurn(gateway: PaidGateway, headers: Record<string, string>): Promise<string | null> {
  const socket = await openSocketClient(gateway.url, { headers });
  const { last } = await socket.turn({ model: "asked", store: false, input: "Hello" });
  socket.close();
  if (last.type === "response.completed") return null;
  const { error } = last as { error?: { code: string } };
  return error?.code ?? last.type;
}

test("the headers of the upgrade limit the fallback of each turn", async () => {
  const gateway = await start({ first: "fault/500" });
  expect(await readTurn(gateway, {})).toBeNull();
  for (const headers of [{ "x-gateway-fallback": "none" }, { "x-gateway-max-price": "1.5" }])
    expect(await readTurn(gateway, headers)).toBe("upstream_error");
  expect(await readTurn(gateway, { "x-gateway-max-price": "cheap" })).toBe("invalid_value");
  expect(await readTurn(gateway, { "x-gateway-max-price": "4" })).toBeNull();
  const rows = await gateway.usageRows();
  expect(rows.map((row) => row.fallback_step)).toEqual([1, null, null, null, 1]);
});

/** Behind a trusted proxy on the same machine, with a second group for one network. */
async function startBehindProxy(network: string): Promise<PaidGateway> {
  return start(
    { policies: [{ name: "network", networks: [network] }], standard: { request_policy: "network" } },
    { port: freePort(), environment: { PUBLIC_URL: "https://gateway.example" } },
  );
}

test("a step admits the network of the client, not that of its proxy", async () => {
  const headers = { "x-forwarded-for": "203.0.113.9" };
  expect(await readTurn(await startBehindProxy("203.0.113.0/24"), headers)).toBeNull();
  expect(await readTurn(await startBehindProxy("127.0.0.0/8"), headers)).toBe("upstream_error");
});
