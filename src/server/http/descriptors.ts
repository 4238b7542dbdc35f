/** How many files and sockets the process may have open. */

import { z } from "zod";

const Report = z.object({ userLimits: z.object({ open_files: z.object({ soft: z.number() }) }) });

/** Infinite where nobody says. */
export function descriptorsMax(): number {
  const report = Report.safeParse(process.report.getReport());
  return report.data?.userLimits.open_files.soft ?? Number.POSITIVE_INFINITY;
}
