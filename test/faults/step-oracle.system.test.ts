/** The oracle of steps against rows that a gateway must not write. */

import { expect, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { usageRow } from "../../src/store/usage/usage-row.test-support.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import { createClientRecord, type SearchOffer } from "./client.ts";
import { buildPaidSetup } from "./paid-setup.ts";
import { StepOracle } from "./step-oracle.ts";

const SETUP = buildPaidSetup("balance");
const oracle = new StepOracle(SETUP);

function served(fields: Partial<UsageRow>, groupName: string, search?: SearchOffer) {
  const publicModel = fields.publicModel ?? "";
  const upstreamModel = SETUP.more?.spare?.[publicModel] ?? SETUP.messages?.[publicModel];
  const request = {
    url: "",
    key: "",
    family: "messages",
    model: publicModel,
    stream: false,
    prompt: "",
  } as const;
  return {
    row: usageRow({ outcome: "completed", usageSource: "upstream", payer: "balance", ...fields }),
    groupName,
    entry: { model: upstreamModel ?? "" } as LedgerEntry,
    client: createClientRecord({ ...request, ...(search === undefined ? {} : { search }) }),
  };
}

test("the group and the model of a row are those of the account that served it", () => {
  expect(oracle.findWrongStep(served({ publicModel: "moved" }, "reserve"))).toBeNull();
  expect(oracle.findWrongStep(served({ publicModel: "moved" }, "default"))).toContain("default moved, and");
  expect(oracle.findWrongStep(served({ publicModel: "changed" }, "reserve"))).toContain(
    "reserve changed, and",
  );
});

test("the step that served is paid by its own payer", () => {
  const row = { publicModel: "moved", payer: null } as const;
  expect(oracle.findWrongStep(served(row, "reserve"))).toBe("reserve is paid by balance, not null");
  const finder = { publicModel: "finder" } as const;
  expect(oracle.findWrongStep(served(finder, "unpaid"))).toBe("unpaid is paid by null, not balance");
});

test("the headers of the response name the group and the step", () => {
  const request = served({ publicModel: "moved", fallbackStep: 1 }, "reserve");
  const findNamed = (group: string, step: string) => {
    const headers = new Headers({ "x-gateway-group": group, "x-gateway-step": step });
    return oracle.findWrongStep({ ...request, client: { ...request.client, status: 200, headers } });
  };
  expect(findNamed("reserve", "1")).toBeNull();
  expect(findNamed("default", "1")).toContain("names default");
  expect(findNamed("reserve", "0")).toContain("names 0");
});

test("searches are charged up to the client's limit, or that of the group that served", () => {
  const wrong = (groupName: string, webSearches: number, max: number | null) =>
    oracle.findWrongSearches(served({ publicModel: "finder", webSearches }, groupName, { max }));
  expect([wrong("default", 3, null), wrong("reserve", 2, null), wrong("default", 4, 4)]).toEqual([
    null,
    null,
    null,
  ]);
  expect(wrong("default", 4, null)).toBe("4 searches, at most 3");
  expect(wrong("reserve", 3, null)).toBe("3 searches, at most 2");
  expect(wrong("default", 1, 2)).toBe("1 searches, not 2");
  // The upstream made five.
  expect(wrong("default", 6, 8)).toBe("6 searches, at most 5");
  expect(oracle.findWrongSearches(served({ publicModel: "finder", webSearches: 1 }, "default"))).toBe(
    "1 searches, at most 0",
  );
});
