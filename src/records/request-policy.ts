/** A request policy as it is stored: what the requests of a group or a key may contain. */

/** Efforts of reasoning, the lowest first. */
export const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
export type Effort = (typeof EFFORTS)[number];

/** Kinds of tools that vendors define. Functions of the client have no kind and are never denied. */
export const TOOL_KINDS = [
  "web_search",
  "web_fetch",
  "code",
  "computer",
  "mcp",
  "file_search",
  "image_generation",
  "shell",
] as const;
export type ToolKind = (typeof TOOL_KINDS)[number];

/** What a rule on inputs counts. `urls` are images and files that the upstream fetches. */
export const INPUT_KINDS = ["images", "files", "urls", "audio"] as const;
export type InputKind = (typeof INPUT_KINDS)[number];

/** Members that a policy may force to `false`. */
export const FORCED_MEMBERS = ["store", "background"] as const;
export type ForcedMember = (typeof FORCED_MEMBERS)[number];

/** What happens to a value above its maximum. */
export const OVER_MAXIMUM = ["lower", "reject"] as const;
export type OverMaximum = (typeof OVER_MAXIMUM)[number];
/** What happens to a denied tool. */
export const OVER_DENIED = ["drop", "reject"] as const;
export type OverDenied = (typeof OVER_DENIED)[number];

/** A smaller cap is useless, and some upstreams reject it. */
export const OUTPUT_TOKENS_MIN = 16;

/** The rules of one policy, with the names of the file. A rule that is left out allows everything. */
export interface RequestRules {
  models?: string[] | undefined;
  networks?: string[] | undefined;
  input_tokens?: { max: number } | undefined;
  output_tokens?: { max: number; over?: OverMaximum | undefined } | undefined;
  effort?: { max: Effort; over?: OverMaximum | undefined } | undefined;
  service_tiers?: string[] | undefined;
  tools?: { deny: ToolKind[]; over?: OverDenied | undefined } | undefined;
  inputs?: { [kind in InputKind]?: number | "deny" | undefined } | undefined;
  force?: { [member in ForcedMember]?: false | undefined } | undefined;
}

export const RULES = [
  "models",
  "networks",
  "input_tokens",
  "output_tokens",
  "effort",
  "service_tiers",
  "tools",
  "inputs",
  "force",
] as const satisfies readonly (keyof RequestRules)[];
export type Rule = (typeof RULES)[number];

/** The rules on the body of a request. Plain data, which threads receive. Null and empty: no rule. */
export interface BodyRules {
  readonly inputTokensMax: number | null;
  readonly outputTokens: { readonly max: number; readonly over: OverMaximum } | null;
  readonly effort: { readonly max: Effort; readonly over: OverMaximum } | null;
  /** In lower case. */
  readonly serviceTiers: readonly string[] | null;
  readonly tools: { readonly deny: readonly ToolKind[]; readonly over: OverDenied } | null;
  readonly inputsMax: { readonly [kind in InputKind]?: number };
  /** Members that are set to false. */
  readonly forced: readonly ForcedMember[];
}

export interface RequestPolicyRecord {
  /** Identifies the policy; never changes. */
  name: string;
  /** Owners of keys may choose the policy for their own keys. */
  selfService: boolean;
  /** Null if the rules were written by a later version: a policy with an unknown rule rejects every request. */
  rules: RequestRules | null;
  createdAtMs: number;
}
