/** The real Claude Code and Codex across a fallback in the middle of a session; `npm run test:long` has 200 sessions. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { planSession, runSession, TOOL_CLIENTS } from "./tool-sessions.ts";

setDefaultTimeout(120_000);

/** Seeds whose dialects differ: a Messages, Responses and Chat account before and after the switch. */
const SEEDS = [4, 8, 9];

test.each(TOOL_CLIENTS.flatMap((client) => SEEDS.map((seed) => [client, seed] as const)))(
  "tool calls of %s keep their results when the session changes its step (plan %i)",
  async (client, seed) => {
    const plan = planSession(client, seed);
    const judged = await runSession(plan, seed);
    expect(judged).toMatchObject({ problems: [], turns: plan.toolTurns + 1 });
    expect(judged.switches).toBeGreaterThan(0);
  },
);
