/** Plans the sign-in of tools. Settings of Claude Code are read on the host only. */

import { createHash } from "node:crypto";
import type { ManagedSettings, ToolSignInRecord } from "../../records/tool-sign-in.ts";
import { writeToolSignIn } from "../../store/settings/sections.ts";
import { limits } from "../limits/product-limits.ts";
import { isRecord } from "../parse/items.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { type FormattedFields, recordChanges } from "../state/difference.ts";
import { TOOL_SIGN_IN_SHAPE } from "../state/file-shape.ts";
import type { FieldProblem } from "../state/problem.ts";
import { type ConfigState, changeStep, type PlanStep } from "../state/step.ts";
import { FILE_ONLY } from "./stored-secrets.ts";

/** Reads a file that the configuration file names. Only the command line has one. */
export type ReadFile = (path: string) => string;

type ToolSignInPlan = { steps: PlanStep[]; problems: FieldProblem[] };
type FileSection = NonNullable<GatewayFile["tool_sign_in"]>;

export function planToolSignIn(
  { toolSignIn: before }: Pick<ConfigState, "toolSignIn">,
  { tool_sign_in: wanted }: Pick<GatewayFile, "tool_sign_in">,
  readFile: ReadFile | undefined,
): ToolSignInPlan {
  if (wanted === undefined) return { steps: [], problems: [] };
  const { settings, problems } = readManagedSettings(before?.managedSettings ?? {}, wanted, readFile);
  const after: ToolSignInRecord = { ...TOOL_SIGN_IN_SHAPE.parse(wanted), managedSettings: settings };
  const fields = recordChanges(before ?? undefined, after, formatRecord);
  return { steps: changeStep("tool_sign_in", fields, (tx) => writeToolSignIn(tx, after)), problems };
}

/** Without a reader, they must be the stored ones: also their removal changes what runs on other computers. */
function readManagedSettings(
  stored: ToolSignInRecord["managedSettings"],
  { claude_code: { managed_settings: wanted } }: FileSection,
  readFile: ReadFile | undefined,
): { settings: Record<string, ManagedSettings>; problems: FieldProblem[] } {
  const settings: Record<string, ManagedSettings> = {};
  const problems: FieldProblem[] = [];
  const section = ["tool_sign_in", "claude_code", "managed_settings"];
  for (const [group, path] of Object.entries(wanted)) {
    const kept = stored[group];
    if (readFile === undefined) {
      if (kept?.path === path) settings[group] = kept;
      else problems.push({ path: [...section, group], message: FILE_ONLY });
      continue;
    }
    const text = compactSettings(readFile(path));
    if (text === null)
      problems.push({
        path: [...section, group],
        message: `${path} must be a JSON object of at most ${limits.toolSignIn.managedSettingsBytesMax} bytes.`,
      });
    else settings[group] = { path, text };
  }
  if (readFile === undefined && Object.keys(stored).some((group) => !Object.hasOwn(wanted, group)))
    problems.push({ path: section, message: REMOVED_ELSEWHERE });
  return { settings, problems };
}

const REMOVED_ELSEWHERE =
  "lacks a group whose settings are stored. Remove settings in the configuration file and run `npx model-gateway apply`.";

function compactSettings(text: string): string | null {
  if (Buffer.byteLength(text) > limits.toolSignIn.managedSettingsBytesMax) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? JSON.stringify(value) : null;
  } catch {
    return null;
  }
}

function formatRecord(record: ToolSignInRecord): FormattedFields {
  // The checksum shows every change. The settings themselves may contain credentials.
  const settings = Object.entries(record.managedSettings).map(([group, { path, text }]) => [
    `claude_code.managed_settings.${group}`,
    `${path} sha256:${createHash("sha256").update(text).digest("hex")}`,
  ]);
  return { ...TOOL_SIGN_IN_SHAPE.format(record), ...Object.fromEntries(settings) };
}

/** Empty if it was never configured. */
export function toolSignInSection({ toolSignIn }: Pick<ConfigState, "toolSignIn">) {
  if (toolSignIn === null) return {};
  const paths = Object.entries(toolSignIn.managedSettings).map(([group, { path }]) => [group, path] as const);
  return {
    tool_sign_in: {
      ...TOOL_SIGN_IN_SHAPE.write(toolSignIn),
      ...(paths.length === 0 ? {} : { claude_code: { managed_settings: Object.fromEntries(paths) } }),
    },
  };
}
