/** Sessions of the real Claude Code and Codex with tool calls, whose first account fails at random turns. */

import { openCodex } from "../codex/codex.ts";
import { openClaudeCode } from "../messages/claude-code.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { openRandom } from "./random-world.ts";
import { type JudgedSession, judgeSession, type PlannedCall } from "./session-oracle.ts";
import { type Role, type SessionUpstreams, startSessionUpstreams } from "./session-upstreams.ts";

export const TOOL_CLIENTS = ["claude", "codex"] as const;
export type ToolClient = (typeof TOOL_CLIENTS)[number];

const DIALECTS = ["messages", "responses", "chat", "gemini"] as const;
type Dialect = (typeof DIALECTS)[number];
/** Faults of the simulator on which a request leaves the step: some cool the account down for seconds, some do not. */
const FAULTS = [
  ...["429@retry=0.05", "429@retry=0.05", "429", "500", "503", "529"],
  ...["rst", "refuse", "html", "empty", "capacity-in-stream"],
];
const TOOL_TURNS_MAX = 4;

export interface SessionPlan {
  readonly client: ToolClient;
  readonly first: Dialect;
  readonly second: Dialect;
  /** What the step changes. */
  readonly step: "group" | "model";
  readonly stays: boolean;
  /** Only of Codex; Claude Code has HTTP. */
  readonly transport: "http" | "websocket";
  readonly calls: readonly PlannedCall[];
  readonly toolTurns: number;
  /** Turn, from 0 → fault. The first turn is never among them. */
  readonly faults: ReadonlyMap<number, string>;
}

/** The combinations of dialects follow from the number of the session, everything else is random. */
export function planSession(client: ToolClient, seed: number): SessionPlan {
  const random = openRandom(seed * 7 + TOOL_CLIENTS.indexOf(client));
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const toolTurns = 2 + Math.floor(random() * (TOOL_TURNS_MAX - 1));
  const faults = new Map([[1 + Math.floor(random() * toolTurns), pick(FAULTS)]]);
  for (let turn = 1; turn <= toolTurns; turn++) if (random() < 0.3) faults.set(turn, pick(FAULTS));
  return {
    client,
    first: DIALECTS[seed % 4] as Dialect,
    second: DIALECTS[Math.floor(seed / 4) % 4] as Dialect,
    step: pick(["group", "model"]),
    stays: random() < 0.5,
    transport: client === "codex" && random() < 0.5 ? "websocket" : "http",
    calls: [6, 7].slice(0, pick([1, 1, 2])).map((factor) => planCall(client, factor)),
    toolTurns,
    faults,
  };
}

function planCall(client: ToolClient, factor: number): PlannedCall {
  const command = `echo $((${factor} * 7))`;
  const output = String(factor * 7);
  return client === "claude"
    ? { name: "Bash", input: { command }, output }
    : { name: "exec_command", input: { cmd: command }, output };
}

/** Runs the session and judges it. Its problems include those that the client reports. */
export async function runSession(plan: SessionPlan, seed: number): Promise<JudgedSession> {
  const upstreams = startSessionUpstreams(seed, plan.faults);
  const gateway = await startTestGateway({ file: sessionFile(plan, upstreams) });
  try {
    const problems = await converse(plan, gateway);
    const judged = judgeSession(upstreams, plan.calls);
    const rows = await gateway.usageRows();
    for (const { status, error_code } of rows)
      if (Number(status) !== 200) problems.push(`the client received ${status} ${error_code}`);
    if (judged.turns !== plan.toolTurns + 1)
      problems.push(`${judged.turns} turns instead of ${plan.toolTurns + 1}`);
    if (judged.moved === 0) problems.push("no turn was served by the step");
    if (plan.stays && judged.switches !== 1) problems.push(`${judged.switches} switches despite stay`);
    return { ...judged, problems: [...problems, ...judged.problems] };
  } finally {
    await gateway.stop();
    await upstreams.stop();
  }
}

async function converse(
  { client, transport, calls }: SessionPlan,
  { url }: RunningGateway,
): Promise<string[]> {
  const question = `Please ${calls.map(({ name, input }) => `call ${name} ${JSON.stringify(input)}`).join(" and ")}`;
  // Results of parallel calls come in any order.
  const isAnswer = (text: string) => calls.some(({ output }) => text.includes(output));
  if (client === "claude") {
    const home = openClaudeCode({ url, model: "asked" });
    const { exitCode, isError, text, complaints } = await home.ask(question, ["--allowedTools", "Bash"]);
    home.remove();
    return exitCode === 0 && !isError && isAnswer(text)
      ? []
      : [`Claude Code ended with ${exitCode}: ${text} ${complaints}`];
  }
  const home = openCodex({ url, model: "asked", transport });
  const { exitCode, failure, messages, notices } = await home.ask(question);
  home.remove();
  return exitCode === 0 && failure === null && isAnswer(messages.join())
    ? []
    : [`Codex ended with ${exitCode}: ${failure} ${messages.join()} ${notices.join()}`];
}

const INTERFACES = DIALECTS;

function sessionFile(plan: SessionPlan, upstreams: SessionUpstreams): string {
  const upstreamModel = `sim-tools-reason@steps=${plan.toolTurns * plan.calls.length}`;
  const account = (role: Role, model: string) => {
    const dialect = plan[role];
    const url = upstreams.url(role);
    return {
      name: role,
      kind: dialect === "messages" ? "anthropic" : dialect === "gemini" ? "gemini" : "openai",
      base_url: dialect === "gemini" ? url : `${url}/v1`,
      credential: "sk-upstream",
      private_network: true,
      ...(dialect === "responses" || dialect === "chat" ? { interfaces: [dialect] } : {}),
      models: { [model]: upstreamModel },
    };
  };
  const step = { when: ["busy", "failing"], ...(plan.stays ? { stay: "10m" } : {}) };
  const isGroup = plan.step === "group";
  const group = { interfaces: INTERFACES, queue: { max_waiting: 0 } };
  const model = (id: string) => ({ id, interfaces: INTERFACES, context_tokens: 1_000_000 });
  return JSON.stringify({
    models: [
      { ...model("asked"), ...(isGroup ? {} : { fallback: [{ model: "other", ...step }] }) },
      ...(isGroup ? [] : [model("other")]),
    ],
    accounts: [account("first", "asked"), account("second", isGroup ? "asked" : "other")],
    groups: [
      isGroup
        ? {
            name: "saver",
            models: ["asked"],
            accounts: ["first"],
            fallback: [{ group: "standard", ...step }],
            ...group,
          }
        : { name: "saver", models: ["asked", "other"], accounts: ["first", "second"], ...group },
      ...(isGroup ? [{ name: "standard", models: ["asked"], accounts: ["second"], ...group }] : []),
    ],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "saver", secret: TEST_KEY }],
  });
}
