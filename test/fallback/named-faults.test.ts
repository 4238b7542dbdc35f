/** Faults of other gateways, each of which lost money: the price was fixed before the step that serves was known. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { type PaidGateway, PRICE } from "../support/paid-gateway.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";
import {
  ask,
  billRow,
  expectNothingHeld,
  type FallbackSetup,
  OTHER_PRICE,
  readServed,
  startFallbackGateway,
} from "./fallback-gateway.ts";

setDefaultTimeout(60_000);

const stopLater = stopAfterEach(expectNothingHeld);

function start(setup: FallbackSetup): Promise<PaidGateway> {
  return stopLater(startFallbackGateway(setup));
}

test("LiteLLM #41344: a free model with a paid fallback spends no more than the balance", async () => {
  const gateway = await start({
    saver: { billing: { charge: "none" } },
    user: { balance: "0.01" },
  });
  const responses = await Promise.all(
    Array.from({ length: 30 }, (_, i) => ask(gateway, { stream: i % 2 === 0 })),
  );
  let charged = 0n;
  for (const response of responses) {
    if (response.status !== 200) continue;
    const { row } = await readServed(gateway, response);
    expect([row.payer, row.chargedNano]).toEqual(["balance", billRow(row, PRICE, "2")]);
    charged += row.chargedNano;
  }
  const { balanceNano } = await gateway.records.wallet();
  expect(charged).toBeGreaterThan(0n);
  expect(balanceNano).toBe(10_000_000n - charged);
  expect(balanceNano).toBeGreaterThanOrEqual(0n);
  expect(responses.some(({ status }) => status === 502)).toBe(true);
});

test("new-api #6480: a request is settled with the price of the group that served it", async () => {
  const gateway = await start({ saver: { billing: { charge: "balance", multiplier: "0.01" } } });
  for (const stream of [false, true]) {
    const { row, group } = await readServed(gateway, await ask(gateway, { stream }));
    expect([group, row.chargedNano]).toEqual(["standard", billRow(row, PRICE, "2")]);
  }
});

test("new-api #4225: a group is left when all of its accounts are parked", async () => {
  const gateway = await start({ first: "fault/401" });
  for (let i = 0; i < 3; i++) {
    const { row, group } = await readServed(gateway, await ask(gateway));
    expect([group, row.fallbackReason]).toEqual(["standard", "failing"]);
  }
});

test("claude-code-hub PR#1327: neither price nor multiplier of the failed step is charged", async () => {
  const gateway = await start({
    saver: { billing: { charge: "balance", multiplier: "100" } },
    steps: [],
    modelSteps: [{ model: "other", when: ["failing"] }],
  });
  const { row } = await readServed(gateway, await ask(gateway, { max_completion_tokens: 16 }));
  expect(row.publicModel).toBe("other");
  expect(row.chargedNano).toBe(billRow(row, OTHER_PRICE, "100"));
  const cheap = await start({ saver: { billing: { charge: "balance", multiplier: "100" } } });
  const served = await readServed(cheap, await ask(cheap, { max_completion_tokens: 16 }));
  expect(served.row.chargedNano).toBe(billRow(served.row, PRICE, "2"));
});
