/** A gateway, a relay in front of it, and Codex as its client: started for a test and stopped after it. */

import { type PooledGateway, type PoolSetup, startPooledGateway } from "../support/pooled-gateway.ts";
import { type CodexHome, type CodexSetup, openCodex } from "./codex.ts";
import { type Conversation, startConversation } from "./conversation.ts";
import { tapWire, type WireTap } from "./wire-tap.ts";

export interface Scene {
  gateway: PooledGateway;
  tap: WireTap;
  codex(setup?: Partial<CodexSetup>): CodexHome;
  converse(setup?: Partial<CodexSetup>): Promise<Conversation>;
  /** Another gateway with the same file. New connections reach it; the test stops the first one. */
  takeOver(): Promise<PooledGateway>;
  close(): Promise<void>;
}

export async function openScene(setup: PoolSetup): Promise<Scene> {
  const gateway = await startPooledGateway(setup);
  const tap = await tapWire(gateway.url);
  const closing: (() => unknown)[] = [() => gateway.stop(), () => tap.stop()];

  function codex(more: Partial<CodexSetup> = {}): CodexHome {
    const home = openCodex({ url: tap.url, model: "pooled", transport: "websocket", ...more });
    closing.push(() => home.remove());
    return home;
  }

  return {
    gateway,
    tap,
    codex,
    async converse(more) {
      const conversation = await startConversation(codex(more));
      closing.push(() => conversation.end());
      return conversation;
    },
    async takeOver() {
      const next = await startPooledGateway(setup);
      closing.push(() => next.stop());
      tap.aim(next.url);
      return next;
    },
    async close() {
      while (closing.length > 0) await closing.pop()?.();
    },
  };
}

/** What clients sent over sockets, in order. */
export function sent(tap: WireTap): Record<string, unknown>[] {
  return tap.messages.flatMap(({ from, message }) => (from === "client" ? [message] : []));
}

/** The ids of responses that were completed over sockets, in order. */
export function completed(tap: WireTap): unknown[] {
  return tap.messages.flatMap(({ message }) => {
    const { type, response } = message;
    if (type !== "response.completed" || typeof response !== "object" || response === null) return [];
    return "id" in response ? [response.id] : [];
  });
}
