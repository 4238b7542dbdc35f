/** One long-running Codex process, as in a terminal or an editor: several turns over `codex app-server`. */

import { z } from "zod";
import { startAppServer } from "./app-server.ts";
import type { CodexHome } from "./codex.ts";

export interface Turn {
  status: "completed" | "failed" | "interrupted";
  /** The messages of the agent. */
  messages: readonly string[];
  commands: readonly { command: string; output: string }[];
  /** Retries and other warnings that the user sees. */
  notices: readonly string[];
  failure: string | null;
}

/** A rate-limit window, as Codex shows it. */
export interface ShownLimit {
  usedPercent: number;
  windowDurationMins: number | null;
  resetsAt: number | null;
}

export interface Conversation {
  say(text: string): Promise<Turn>;
  /** Interrupts the turn in flight. */
  interrupt(): Promise<void>;
  /** Compacts the conversation: replaces it by a summary. */
  compact(): Promise<Turn>;
  /** The last rate limits that Codex received, if any. */
  limits(): { primary: ShownLimit | null; secondary: ShownLimit | null } | null;
  end(): Promise<void>;
}

const shownLimit = z.looseObject({
  usedPercent: z.number(),
  windowDurationMins: z.number().nullable(),
  resetsAt: z.number().nullable(),
});
const item = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  command: z.string().optional(),
  aggregatedOutput: z.string().nullish(),
});
const failure = z.looseObject({ message: z.string() });

const turnStarted = z.looseObject({ turn: z.looseObject({ id: z.string() }) });
const threadStarted = z.looseObject({ thread: z.looseObject({ id: z.string() }) });
const itemCompleted = z.looseObject({ item });
const reportedError = z.looseObject({ error: failure });
const warning = z.looseObject({ message: z.string() });
const limitsUpdated = z.looseObject({
  rateLimits: z.looseObject({ primary: shownLimit.nullable(), secondary: shownLimit.nullable() }),
});
const turnCompleted = z.looseObject({
  turn: z.looseObject({
    status: z.enum(["completed", "failed", "interrupted"]),
    error: failure.nullable(),
  }),
});

/** The turn in flight, as far as it is known. */
interface OpenTurn {
  id: string;
  messages: string[];
  commands: { command: string; output: string }[];
  notices: string[];
  outcome: PromiseWithResolvers<Turn>;
}

export async function startConversation(codex: CodexHome): Promise<Conversation> {
  let turn: OpenTurn | null = null;
  let shown: ReturnType<Conversation["limits"]> = null;
  const server = startAppServer(codex, {
    notice(method, params) {
      if (method === "account/rateLimits/updated") shown = limitsUpdated.parse(params).rateLimits;
      else if (turn !== null) note(turn, method, params);
    },
    ended: (reason) => turn?.outcome.reject(reason),
  });
  await server.call("initialize", {
    clientInfo: { name: "codex_tests", title: null, version: "1.0.0" },
    capabilities: null,
  });
  server.notify("initialized");
  const { thread } = threadStarted.parse(await server.call("thread/start", { cwd: codex.workspace }));

  async function begin(method: string, params: object): Promise<Turn> {
    const outcome = Promise.withResolvers<Turn>();
    turn = { id: "", messages: [], commands: [], notices: [], outcome };
    await server.call(method, { threadId: thread.id, ...params });
    return outcome.promise;
  }

  return {
    say: (text) => begin("turn/start", { input: [{ type: "text", text, text_elements: [] }] }),
    async interrupt() {
      await server.call("turn/interrupt", { threadId: thread.id, turnId: turn?.id });
    },
    compact: () => begin("thread/compact/start", {}),
    limits: () => shown,
    end: () => server.stop(),
  };
}

function note(turn: OpenTurn, method: string, params: unknown): void {
  switch (method) {
    case "turn/started":
      turn.id = turnStarted.parse(params).turn.id;
      return;
    case "item/completed": {
      const { type, text, command, aggregatedOutput } = itemCompleted.parse(params).item;
      if (type === "agentMessage") turn.messages.push(text ?? "");
      if (type === "commandExecution") {
        turn.commands.push({ command: command ?? "", output: aggregatedOutput ?? "" });
      }
      return;
    }
    case "error":
      turn.notices.push(reportedError.parse(params).error.message);
      return;
    case "warning":
      turn.notices.push(warning.parse(params).message);
      return;
    case "turn/completed": {
      const { status, error } = turnCompleted.parse(params).turn;
      const { messages, commands, notices } = turn;
      turn.outcome.resolve({ status, messages, commands, notices, failure: error?.message ?? null });
    }
  }
}
