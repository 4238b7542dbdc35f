/** One runner for the life of the page, and its state. */

import { useState } from "react";
import { IDLE, RequestRunner, type RunnerState } from "./request-runner.ts";

export function useRunner(key: () => string): { runner: RequestRunner; state: RunnerState } {
  const [state, setState] = useState(IDLE);
  const [runner] = useState(() => new RequestRunner({ key, onChange: setState }));
  return { runner, state };
}
