/** What `GET /v1/models?client_version=` lists in addition: models in the format that Codex reads. */

import type { PolicyGroup, PublishedModel } from "../../policy/snapshot.ts";

/** Codex accepts a list only if each entry has all of these fields except the last three. */
export interface CodexModel {
  slug: string;
  display_name: string;
  supported_reasoning_levels: readonly { effort: string; description: string }[];
  shell_type: "shell_command";
  visibility: "list";
  supported_in_api: true;
  priority: number;
  support_verbosity: boolean;
  truncation_policy: { mode: "bytes" | "tokens"; limit: number };
  model_messages: { instructions_template: string };
  experimental_supported_tools: readonly string[];
  apply_patch_tool_type: "freeform";
  context_window?: number;
  max_context_window?: number;
}

export function codexModels(group: PolicyGroup): CodexModel[] {
  return [...group.models.values()]
    .filter((model) => model.routes.has("responses") && !isBundled(model.id))
    .map(describe);
}

/** Models that Codex knows are omitted: an entry would replace its own data, above all its prompts. */
function isBundled(id: string): boolean {
  return id.startsWith("gpt-") || id.startsWith("codex-");
}

/** Reasoning levels and verbosity are omitted: not known here, and some models reject both. */
function describe(model: PublishedModel, index: number): CodexModel {
  const { id, contextTokens } = model;
  return {
    slug: id,
    display_name: id,
    supported_reasoning_levels: [],
    shell_type: "shell_command",
    visibility: "list",
    supported_in_api: true,
    priority: index,
    support_verbosity: false,
    truncation_policy: { mode: "bytes", limit: 10_000 },
    model_messages: { instructions_template: INSTRUCTIONS },
    experimental_supported_tools: [],
    apply_patch_tool_type: "freeform",
    ...(contextTokens === null ? {} : { context_window: contextTokens, max_context_window: contextTokens }),
  };
}

/** Codex has a prompt for models it does not know, but uses none for a model that is listed without one. */
const INSTRUCTIONS = `You are a coding agent. You work in the user's working folder with the available tools. Continue until the task is complete and verified, or until you can state exactly what blocks it.

# Working
- Read before you change: read the relevant files and the project's own instructions, such as AGENTS.md, and follow them. Instructions in a folder apply to everything below it. Deeper instructions take precedence, and the user's instructions take precedence over both.
- Search with \`rg\` if it is installed. Run commands that answer a question, and read their output.
- Change files with \`apply_patch\`. Keep changes minimal and in the style of the surrounding code. Fix causes, not symptoms. Do not fix unrelated problems, but mention them.
- Never undo or overwrite work that is not yours. Do not commit, push or create branches unless the user requests it.
- Verify your changes: run the most specific tests first, then broader ones. If a test cannot be run here, say so.
- Commands may be sandboxed. If a command is denied, do not work around it: ask the user, or find a way that needs no additional permissions.

# Communication
- Before a longer task, say in one sentence what you are about to do. Keep updates short.
- At the end, state what changed and where, as \`path:line\`, how you verified it, and what remains. Be plain and concise.
- Never claim results that you did not observe.`;
