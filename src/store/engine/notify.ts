/**
 * Wakes other nodes when something has changed, with PostgreSQL's NOTIFY. A notification may be lost: nodes also poll.
 * Only for rare changes, because a transaction with a notification takes a lock of the whole server at its commit.
 */

import type { SQL } from "bun";
import { isSharedServer } from "./dialect.ts";
import { hasSession, openDriver } from "./postgres-session.ts";
import { explainStoreError } from "./store-problem.ts";
import type { Db } from "./transaction.ts";

/** `policy`: keys and policy. `health`: accounts. `recall`: a node needs money that others reserved. */
const TOPICS = ["policy", "health", "recall"] as const;
type Topic = (typeof TOPICS)[number];

const CHANNEL = "model_gateway";
const RETRY_MS = 5_000;

/** Delivered when the transaction commits. Does nothing where the database has one node. */
export async function notifyNodes(tx: Db, topic: Topic): Promise<void> {
  if (isSharedServer(tx)) await tx.sql`SELECT pg_notify(${CHANNEL}, ${topic})`;
}

export interface WakeUps {
  stop(): Promise<void>;
}

interface WakeUpOptions {
  /** A connection to the server itself: a pooler that shares connections between transactions loses notifications. */
  readonly url: string;
  onTopic(topic: Topic): void;
  /** The connection was opened, also again after it was lost: notifications may have been missed. */
  onConnected(): void;
  onFailure(error: unknown): void;
}

/** Returns at once. */
export function listenForChanges({ url, onTopic, onConnected, onFailure }: WakeUpOptions): WakeUps {
  const onPayload = (payload: string) => {
    const topic = TOPICS.find((known) => known === payload);
    // A newer node may send a topic that this version does not know.
    if (topic !== undefined) onTopic(topic);
  };
  return listen({ url, channel: CHANNEL, onPayload, onConnected, onFailure });
}

export interface Listener extends Omit<WakeUpOptions, "onTopic"> {
  readonly channel: string;
  onPayload(payload: string): void;
}

/** Returns at once. The driver reconnects by itself once the first connection has succeeded. */
export function listen({ url, channel, onPayload, onConnected, onFailure }: Listener): WakeUps {
  let retry: ReturnType<typeof setTimeout> | null = null;
  let isStopped = false;
  const driver = openListener(url);
  const start = async () => {
    try {
      const problem = await findListenProblem(url);
      if (isStopped) return;
      // The address will not change, so another attempt would not help.
      if (problem !== null) onFailure(new Error(problem));
      else await driver.listen(channel, onPayload, onConnected);
    } catch (error) {
      if (isStopped) return;
      onFailure(error);
      retry = setTimeout(start, RETRY_MS);
    }
  };
  void start();
  return {
    async stop() {
      isStopped = true;
      if (retry !== null) clearTimeout(retry);
      await driver.close({ timeout: 0 });
    },
  };
}

/** Why an address is not suitable for notifications; null if it is. Throws if it cannot be reached. */
export async function findListenProblem(url: string): Promise<string | null> {
  const driver = openListener(url);
  try {
    return (await hasSession(driver))
      ? null
      : "the address is that of a connection pooler, which loses notifications";
  } catch (error) {
    throw explainStoreError(error);
  } finally {
    await driver.close({ timeout: 0 });
  }
}

function openListener(url: string): SQL {
  return openDriver(url, {
    applicationName: "model-gateway listener",
    connectionsMax: 1,
    scope: "session",
    settings: {},
  });
}
