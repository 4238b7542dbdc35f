/** What the supervisor and a process of it send each other, over the channel that the runtime opens between them. */

/** `alive`: the event loop of the process turns. */
export type ProcessReport = "ready" | "alive";

/** `replace`: another process serves the port already, so load balancers need no time to notice. */
export type ProcessCommand = "stop" | "replace";

/**
 * `first`: applies the configuration file and prints what an operator must know. `further`: reads the file only.
 * `recover`: settles what an earlier process left in its folder, and ends.
 */
const PROCESS_ROLES = ["first", "further", "recover"] as const;
export type ProcessRole = (typeof PROCESS_ROLES)[number];

/** Set by the supervisor for the processes that it starts. */
export const ROLE_VARIABLE = "MODEL_GATEWAY_PROCESS_ROLE";

/** Null for a process without a supervisor. */
export function readRole(environment: Readonly<Record<string, string | undefined>>): ProcessRole | null {
  return PROCESS_ROLES.find((role) => role === environment[ROLE_VARIABLE]) ?? null;
}
