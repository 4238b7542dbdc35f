/** Opens the responses that the gateway stores itself, and removes expired ones. */

import { KeySlots } from "../gateway/admission/key-limits.ts";
import type { BodyBudgets } from "../gateway/bodies/body-budgets.ts";
import { RecordLoader } from "../gateway/stored-responses/record-loader.ts";
import { RecordSealer } from "../gateway/stored-responses/record-sealer.ts";
import { startSweepingResponses } from "../gateway/stored-responses/remove-expired-responses.ts";
import { ResponseArchive } from "../gateway/stored-responses/response-archive.ts";
import { StoredConversations } from "../gateway/stored-responses/stored-conversations.ts";
import { StoredResponses } from "../gateway/stored-responses/stored-responses.ts";
import { isSharedServer } from "../store/engine/dialect.ts";
import { openWalCheckpointer } from "../store/engine/wal-checkpointer.ts";
import type { ProcessContext } from "./process-context.ts";
import type { ThisNode } from "./this-node.ts";

/** At shutdown it writes the responses that wait. Open it before the requests in flight, so that it is closed after. */
export function openStoredResponses(context: ProcessContext, { large }: BodyBudgets): StoredResponses {
  const { installation, settings, limits, log, closers } = context;
  const { db, clock, contentKeyring: keyring } = installation;
  const { monotonicMs } = clock;
  const sealer = new RecordSealer({ keyring, limits: limits.recordThreads, monotonicMs });
  closers.add(() => sealer.close());
  const loads = limits.storedResponseLoads;
  const loader = new RecordLoader({
    db,
    sealer,
    limits: loads,
    ownSlots: new KeySlots(loads.own),
    allSlots: new KeySlots(loads.all),
    budget: large,
  });
  const checkpointer = isSharedServer(db) ? null : openWalCheckpointer(settings.databaseUrl);
  closers.add(async () => checkpointer?.close());
  const archive = new ResponseArchive({
    db,
    clock,
    log,
    sealer,
    loader,
    limits: limits.storedResponses,
    checkpointWal: async () => checkpointer?.checkpoint(),
  });
  const responses = new StoredResponses(new StoredConversations(limits), archive);
  closers.add(() => responses.close());
  return responses;
}

/** One node removes expired responses for all. */
export function startRemovingResponses(context: ProcessContext, { jobs }: ThisNode): void {
  const { installation, limits, log, closers } = context;
  const { sweepMs, bytesMax } = limits.storedResponses;
  const sweeper = startSweepingResponses({
    ...installation,
    log,
    sweepMs,
    bytesMax,
    runJob: jobs.forJob("stored_responses", sweepMs),
  });
  closers.add(() => sweeper.stop());
}
