/** Opens the responses that the gateway stores itself, and removes expired ones. */

import { startSweepingResponses } from "../gateway/stored-responses/remove-expired-responses.ts";
import { ResponseArchive } from "../gateway/stored-responses/response-archive.ts";
import { StoredConversations } from "../gateway/stored-responses/stored-conversations.ts";
import { StoredResponses } from "../gateway/stored-responses/stored-responses.ts";
import type { ProcessContext } from "./process-context.ts";
import type { ThisNode } from "./this-node.ts";

/** At shutdown it writes the responses that wait. Open it before the requests in flight, so that it is closed after. */
export function openStoredResponses(context: ProcessContext): StoredResponses {
  const { installation, limits, log, closers } = context;
  const archive = new ResponseArchive({ ...installation, log, limits: limits.storedResponses });
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
