/** Stands in the place of data that is not loaded yet: a placeholder, or the error. */

import type { ApiQuery } from "../data.ts";
import { ProblemNotice } from "./notice.tsx";
import { Skeleton } from "./page.tsx";

interface AwaitedProps {
  query: Pick<ApiQuery<unknown>, "error" | "refetch">;
  /** About the height of the expected content. */
  height: number;
}

export function Awaited({ query: { error, refetch }, height }: AwaitedProps) {
  if (error === null) return <Skeleton height={height} />;
  return <ProblemNotice error={error} onRetry={() => void refetch()} />;
}
