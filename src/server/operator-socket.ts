/**
 * A door for the operator's own command line, beside the public one: a socket file in the data folder, which only its
 * owner can open. It tells what only the running process knows, and books what only that has.
 */

import { chmodSync, rmSync } from "node:fs";
import { z } from "zod";
import { callerSubjects } from "../gateway/admission/caller-limits.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { LimitStanding } from "../limits/limiter.ts";
import type { Candidate } from "../pool/pool.ts";
import { INTERFACES } from "../records.ts";

/** What would happen to a request now: how its limits stand, and which accounts could take it. */
export interface LiveExplanation {
  limits: { scope: string; standing: LimitStanding }[];
  candidates: Candidate[];
}

const explainQuestion = z.object({
  keyId: z.string(),
  model: z.string(),
  interface: z.enum(INTERFACES),
});

const settleUpQuestion = z.object({ userId: z.string().nullable() });

export interface OperatorSocket {
  /** Takes the socket's file away, if there is one of its own. */
  close(): void;
}

/**
 * Without it the gateway serves all the same: a path may be too long for a socket, or on a disk that takes none, or
 * another process may run on this folder and have the door.
 */
export async function openOperatorSocket(gateway: Gateway, socketFile: string): Promise<OperatorSocket> {
  try {
    if (await isAnswered(socketFile)) throw new Error("another process runs on this data folder and has it");
    rmSync(socketFile, { force: true });
    return listen(gateway, socketFile);
  } catch (error) {
    gateway.log.warn("no_control_door", { reason: error instanceof Error ? error.message : "unknown" });
    return { close() {} };
  }
}

/** A process that was killed leaves the file behind, and nobody answers there. */
async function isAnswered(socketFile: string): Promise<boolean> {
  try {
    const connection = await Bun.connect({ unix: socketFile, socket: { data() {} } });
    connection.end();
    return true;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code === "ECONNREFUSED" || code === "ENOENT") return false;
    throw error;
  }
}

function listen(gateway: Gateway, socketFile: string): OperatorSocket {
  const server = Bun.serve({
    unix: socketFile,
    async fetch(request) {
      const question: unknown = await request.json().catch(() => null);
      const { pathname } = new URL(request.url);
      const explain = pathname === "/explain" ? explainQuestion.safeParse(question) : null;
      if (explain?.success) return Response.json(explainLive(gateway, explain.data));
      const settleUp = pathname === "/settle-up" ? settleUpQuestion.safeParse(question) : null;
      if (settleUp?.success) return settledUp(gateway, settleUp.data.userId);
      return new Response("not a question", { status: 400 });
    },
  });
  chmodSync(socketFile, 0o600);
  return {
    close() {
      void server.stop(true);
    },
  };
}

function explainLive(gateway: Gateway, asked: z.output<typeof explainQuestion>): LiveExplanation {
  const key = gateway.policy.keys.get(asked.keyId);
  const group = key && gateway.policy.snapshot().groups.get(key.groupId);
  if (!key || !group) return { limits: [], candidates: [] };
  const routes = group.models.get(asked.model)?.routes.get(asked.interface) ?? [];
  return {
    limits: callerSubjects({ key, group }).map((subject) => ({
      scope: subject.scope,
      standing: gateway.limiter.standing(subject),
    })),
    candidates: routes.map((route) => gateway.dispatcher.pool.describe(route)),
  };
}

/** From then on the store tells what the user has and what is held of it; of all users, what they were charged. */
function settledUp({ till }: Gateway, userId: string | null): Promise<Response> {
  const settled = userId === null ? till.flush() : till.settleUp(userId);
  return settled.then(
    () => Response.json({}),
    () => new Response("the store takes nothing", { status: 503 }),
  );
}
