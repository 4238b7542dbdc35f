/**
 * Fallback between groups and models at other prices, searches of the web, and a request policy, for a setup whose groups
 * have none of them. `ROUTED_MIX` and `ROUTED_NODES_MIX` are its traffic.
 */

import type { Setup, SetupGroup } from "./setup.ts";
import { accountsOfGroup } from "./setup.ts";

/** The account of a group's first step, which always fails. */
const FAILING = "failing";
const RESERVE = "reserve";
const POLICY = "bounded";
/** An upstream makes more searches than the groups pay for, and more than a client allows. */
const SEARCHES_MADE = 5;
const GROUP_SEARCHES_MAX = 3;
const RESERVE_SEARCHES_MAX = 2;

/** Models whose first step fails. `changed` also fails in the group of the second one. */
export const ROUTED_MODELS: ReadonlySet<string> = new Set(["moved", "changed", "seeker"]);

/** The models, prices and accounts of routing, with groups that do not use them yet: earlier versions accept it. */
export function prepareRouting(setup: Setup, charge: string): Setup {
  const models = { ...setup.models, "stand-in": "sim-stand-in@events=20,interval=5ms" };
  const finder = `sim-finder@searches=${SEARCHES_MADE},events=20,interval=5ms`;
  const prepared: Setup = {
    ...setup,
    models,
    messages: { ...setup.messages, finder },
    more: {
      [FAILING]: { moved: "fault/503", changed: "fault/500", seeker: "fault/503" },
      "failing-too": { changed: "fault/500" },
      spare: {
        moved: "sim-moved@events=20,interval=5ms",
        seeker: `sim-seeker@searches=${SEARCHES_MADE},events=20,interval=5ms`,
      },
    },
    contextTokens: { "stand-in": 200_000 },
    ownPrices: {
      "stand-in": { input: "4.00", cached_input: "2.00", output: "7.00" },
      seeker: { input: "1.10", cached_input: "0.30", output: "5.00", per_call: { web_search: "0.0007" } },
    },
  };
  const shared = accountsOfGroup(prepared, { name: RESERVE });
  return {
    ...prepared,
    groups: [
      ...setup.groups.map((group): SetupGroup => ({ ...group, accounts: [...shared, FAILING] })),
      {
        name: RESERVE,
        billing: { charge, multiplier: "1.7" },
        accounts: [...shared, "failing-too", "spare"],
      },
    ],
  };
}

/** The same setup in use. A file with fallback is rejected while a node runs that would ignore it. */
export function useRouting(prepared: Setup): Setup {
  const fallback = [{ group: RESERVE, when: ["failing"], max_price: "2.5" }];
  return {
    ...prepared,
    modelFallback: { changed: [{ model: "stand-in", when: ["failing"] }] },
    requestPolicies: [{ name: POLICY, output_tokens: { max: 3_000, over: "lower" } }],
    groups: prepared.groups.map((group) =>
      group.name === RESERVE
        ? { ...group, web_searches_max: RESERVE_SEARCHES_MAX }
        : { ...group, web_searches_max: GROUP_SEARCHES_MAX, request_policy: POLICY, fallback },
    ),
  };
}
