/** How many files and sockets the process may open, and how many of them client connections may use. */

import { z } from "zod";

const ProcessReport = z.object({ userLimits: z.object({ open_files: z.object({ soft: z.number() }) }) });

/** Infinity when the limit is unknown. */
export function fileDescriptorsMax(): number {
  const report = ProcessReport.safeParse(process.report.getReport());
  return report.data?.userLimits.open_files.soft ?? Number.POSITIVE_INFINITY;
}

/** Descriptors reserved for the database, the journal, the log and uploads. */
const RESERVED_FILES = 64;
/** Requests at once in a process. Each needs a second descriptor for its upstream connection. */
const UPSTREAMS_MAX = 5_000;

/** The maximum number of client connections that leaves enough descriptors for upstream connections. */
export function connectionsMax(descriptors: number): number {
  return Math.floor(
    Math.max((descriptors - RESERVED_FILES) / 2, descriptors - UPSTREAMS_MAX, descriptors / 4),
  );
}
