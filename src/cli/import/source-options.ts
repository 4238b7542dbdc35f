/** The options of new-api and one-api: texts by name, most of them JSON. An option that was never changed is absent. */

import type { ImportFinding } from "./imported.ts";
import type { SourceTable } from "./source-table.ts";
import type { TableReader } from "./table-reader.ts";

const OPTIONS: SourceTable = { name: "options", key: "key", required: ["value"] };

export class SourceOptions {
  readonly #texts = new Map<string, string>();
  readonly #findings: ImportFinding[];

  private constructor(findings: ImportFinding[]) {
    this.#findings = findings;
  }

  static async read(reader: TableReader, findings: ImportFinding[]): Promise<SourceOptions> {
    const options = new SourceOptions(findings);
    await reader.each(OPTIONS, (row) => options.#texts.set(row.id, row.text("value") ?? ""));
    return options;
  }

  /** Null if the option is absent or empty. */
  text(name: string): string | null {
    const text = this.#texts.get(name)?.trim() ?? "";
    return text === "" ? null : text;
  }

  /** Null if the option is absent. What is no JSON object is reported and read as an empty one. */
  object(name: string): Readonly<Record<string, unknown>> | null {
    const text = this.text(name);
    if (text === null) return null;
    try {
      const value: unknown = JSON.parse(text);
      if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
    } catch {
      // Reported below.
    }
    this.report(name, "is not a JSON object: ignored.");
    return {};
  }

  report(name: string, message: string): void {
    this.#findings.push({ subject: `option ${name}`, message });
  }
}

/** The members that are numbers of 0 or more. */
export function pickNumbers(value: unknown): Readonly<Record<string, number>> {
  if (typeof value !== "object" || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, number] => {
      return typeof entry[1] === "number" && Number.isFinite(entry[1]) && entry[1] >= 0;
    }),
  );
}
