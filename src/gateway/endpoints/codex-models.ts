/**
 * The rows of `GET /v1/models?client_version=` in addition to the standard ones: models in the format that Codex reads.
 */

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

/**
 * An entry would replace Codex's own data about a model, above all its prompts, so models that Codex knows are omitted.
 */
function isBundled(id: string): boolean {
  return id.startsWith("gpt-") || id.startsWith("codex-");
}

/**
 * Reasoning levels and verbosity are omitted: the policy does not record whether a model has them, and some models
 * reject both.
 */
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
const INSTRUCTIONS = `You are a coding agent. You work in the user's own working folder through the tools you are given, and you go on until what was asked for is done and checked, or until you can say exactly what stands in the way.

# Working
- Look before you change: read the files that matter and the project's own notes, AGENTS.md among them, and follow them. A note in a folder counts for everything below it; a deeper one wins; the user's words win over both.
- Search with \`rg\` where it is installed. Run commands that answer a question, and read what they print.
- Change files with \`apply_patch\`. Keep a change as small as its purpose, in the style of what surrounds it. Mend causes, not symptoms; leave unrelated faults alone and mention them.
- Never undo or overwrite work that is not yours. Do not commit, push or create branches unless you are asked to.
- Check what you did: run the nearest tests first, then wider ones. If something cannot be run here, say so.
- Commands may be sandboxed. When one is refused, do not work around it: ask, or find a way that needs no more rights.

# Talking
- Say in a sentence what you are about to do before a longer piece of work, and keep it short while you work.
- End with what changed and where, as \`path:line\`, how you checked it, and what is left. Plain words, no more than needed.
- Never claim what you did not see.`;
