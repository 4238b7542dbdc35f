/** How many files and sockets the process may have open, and how many of them clients get. */

import { z } from "zod";

const Report = z.object({ userLimits: z.object({ open_files: z.object({ soft: z.number() }) }) });

/** Infinite where nobody says. */
export function fileDescriptorsMax(): number {
  const report = Report.safeParse(process.report.getReport());
  return report.data?.userLimits.open_files.soft ?? Number.POSITIVE_INFINITY;
}

/** Of the descriptors, for the store, the journal, the log and uploads. */
const FILES = 64;
/** As many requests under way as one process can serve: each of them needs a second descriptor, for its account. */
const UPSTREAMS_MAX = 5_000;

/** Connections of clients that may be open at once, so that those with a request under way find an account's, too. */
export function connectionsMax(descriptors: number): number {
  return Math.floor(Math.max((descriptors - FILES) / 2, descriptors - UPSTREAMS_MAX, descriptors / 4));
}
