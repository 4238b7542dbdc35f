/**
 * The beta flags of Messages that Amazon Bedrock and Google Vertex AI accept. Both reject a request with an unknown
 * flag, and clients send new flags with every release, so flags that are not listed are left out.
 */

import type { PolicyAccount } from "../account.ts";

const BEDROCK_BETAS: readonly string[] = [
  "compact-2026-01-12",
  "computer-use-2024-10-22",
  "computer-use-2025-01-24",
  "computer-use-2025-11-24",
  "context-1m-2025-08-07",
  "context-management-2025-06-27",
  "dev-full-thinking-2025-05-14",
  "effort-2025-11-24",
  "fine-grained-tool-streaming-2025-05-14",
  "interleaved-thinking-2025-05-14",
  "mid-conversation-output-config-2026-07-01",
  "mid-conversation-tool-changes-2026-07-01",
  "output-128k-2025-02-19",
  "thinking-binding-controls-2026-08-01",
  "thinking-display-updates-2026-08-18",
  "token-efficient-tools-2025-02-19",
  "tool-examples-2025-10-29",
  "tool-search-tool-2025-10-19",
];

const VERTEX_BETAS: readonly string[] = [
  "compact-2026-01-12",
  "compact-2026-09-04",
  "computer-use-2025-01-24",
  "computer-use-2025-11-24",
  "context-1m-2025-08-07",
  "context-management-2025-06-27",
  "interleaved-thinking-2025-05-14",
  "per-turn-control-2026-07-01",
  "thinking-binding-controls-2026-08-01",
  "thinking-display-updates-2026-08-18",
  "tool-search-tool-2025-10-19",
  "web-search-2025-03-05",
];

/** Flags that both vendors have under another name. */
const RENAMED: ReadonlyMap<string, string> = new Map([
  ["advanced-tool-use-2025-11-20", "tool-search-tool-2025-10-19"],
]);

export interface BetaFlags {
  readonly accepted: readonly string[];
  /** Whether a flag of the client was left out. */
  readonly areDropped: boolean;
}

const NO_FLAGS: BetaFlags = { accepted: [], areDropped: false };

/** `header` is the client's `anthropic-beta`. */
export function selectBetas(account: PolicyAccount, header: string | null): BetaFlags {
  if (header === null) return NO_FLAGS;
  const allowed = allowedBetas(account);
  const sent = header
    .split(",")
    .map((flag) => flag.trim())
    .filter((flag) => flag !== "");
  const accepted = new Set<string>();
  let areDropped = false;
  for (const flag of sent) {
    const name = allowed.has(flag) ? flag : (RENAMED.get(flag) ?? flag);
    if (allowed.has(name)) accepted.add(name);
    else areDropped = true;
  }
  return { accepted: [...accepted], areDropped };
}

/** `profile.betas` of the configuration replaces the list. */
function allowedBetas({ kind, profile }: PolicyAccount): ReadonlySet<string> {
  const configured = profile?.betas;
  if (typeof configured === "string") return new Set(configured.split(",").map((flag) => flag.trim()));
  return new Set(kind === "bedrock" ? BEDROCK_BETAS : VERTEX_BETAS);
}
