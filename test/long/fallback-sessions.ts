/** Sessions of the real Claude Code and Codex, in turn, whose account fails at random turns. */

import { planSession, runSession, TOOL_CLIENTS, type ToolClient } from "../fallback/tool-sessions.ts";
import { installClients } from "../support/install-dependencies.ts";

export interface SessionRunOptions {
  readonly sessions: number;
  say(text: string): void;
}

export async function toolsSurviveSwitches({ sessions, say }: SessionRunOptions): Promise<string> {
  await installClients(say);
  const sum = { sessions: 0, turns: 0, moved: 0, switches: 0, stateRejections: 0 };
  const problems: string[] = [];
  for (let i = 0; i < sessions; i++) {
    // Both clients meet every combination of dialects.
    const client = TOOL_CLIENTS[i % TOOL_CLIENTS.length] as ToolClient;
    const seed = Math.floor(i / TOOL_CLIENTS.length);
    const judged = await runSession(planSession(client, seed), seed);
    problems.push(...judged.problems.map((problem) => `${client} ${seed}: ${problem}`));
    sum.sessions++;
    sum.turns += judged.turns;
    sum.moved += judged.moved;
    sum.switches += judged.switches;
    sum.stateRejections += judged.stateRejections;
    if (i % 20 === 19) say(`${sum.sessions} sessions, ${sum.turns} turns, ${problems.length} problems`);
  }
  if (problems.length > 0) throw new Error(problems.join("\n"));
  return `${sum.sessions} sessions with ${sum.turns} turns, ${sum.moved} of them served by the step, after ${sum.switches} switches: every tool call had its result; ${sum.stateRejections} requests were repeated without the state of another account`;
}
