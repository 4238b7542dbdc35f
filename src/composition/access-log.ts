/** Opens the access log, if it is on. At shutdown it writes the last lines. */

import { AccessLog } from "../observe/access-log.ts";
import type { ProcessContext } from "./process-context.ts";

export function openAccessLog({ settings, limits, closers, writeAccess }: ProcessContext): AccessLog | null {
  const { mode, sampleRatio } = settings.accessLog;
  if (mode === "off") return null;
  const accessLog = new AccessLog({
    ratio: mode === "on" ? 1 : sampleRatio,
    write: writeAccess,
    random: Math.random,
    ...limits.accessLog,
    ...(settings.process === null
      ? { constants: {} }
      : {
          constants: { process: settings.process.number },
          batchCharsMax: limits.processes.accessBatchCharsMax,
        }),
  });
  closers.add(() => accessLog.flush());
  return accessLog;
}
