/** In the place of what was asked for and is not here: room for it, or why it did not come. */

import type { Asked } from "../data.ts";
import { ProblemNotice } from "./notice.tsx";
import { Skeleton } from "./page.tsx";

interface AwaitedProps {
  query: Pick<Asked<unknown>, "error" | "refetch">;
  /** About as high as what will be there. */
  height: number;
}

export function Awaited({ query: { error, refetch }, height }: AwaitedProps) {
  if (error === null) return <Skeleton height={height} />;
  return <ProblemNotice error={error} onRetry={() => void refetch()} />;
}
