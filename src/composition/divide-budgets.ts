/** Divides the budgets of a machine over the processes that serve one port on it. */

import type { ProcessLimits } from "./process-context.ts";

/** The memory, disk space and connections of one of so many processes. */
export function divideBudgets(limits: ProcessLimits, processes: number): ProcessLimits {
  if (processes === 1) return limits;
  const { connections, largeBodies, smallBodies, spool } = limits;
  // No less than one client needs: one process may serve the largest request.
  const divide = (whole: number, least = 0) => Math.max(least, Math.ceil(whole / processes));
  return {
    ...limits,
    connections: {
      ...connections,
      max: divide(connections.max),
      unauthenticatedBytesMax: divide(connections.unauthenticatedBytesMax, connections.headBytesMax),
      authenticatedBytesMax: divide(connections.authenticatedBytesMax, connections.readAheadBytesMax),
      unsentBytesMax: divide(connections.unsentBytesMax, limits.responseBytesMax),
    },
    largeBodies: {
      ...largeBodies,
      memoryShare: largeBodies.memoryShare / processes,
      bytesMax: divide(largeBodies.bytesMax, largeBodies.bytesMin),
    },
    smallBodies: {
      ...smallBodies,
      memoryShare: smallBodies.memoryShare / processes,
      bytesMax: divide(smallBodies.bytesMax, smallBodies.bytesMin),
    },
    spool: { ...spool, bytesMax: divide(spool.bytesMax, limits.imageBodyBytesMax) },
    socketsWaitingBytesMax: divide(limits.socketsWaitingBytesMax, limits.socketsWaitingKeyBytesMax),
    socketsUnfinishedBytesMax: divide(limits.socketsUnfinishedBytesMax, limits.socketsUnfinishedKeyBytesMax),
    socketMemoriesBytesMax: divide(limits.socketMemoriesBytesMax, limits.socketMemoriesKeyBytesMax),
  };
}
