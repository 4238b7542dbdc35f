/** One problem of the configuration file, described so that it can be fixed without the manual. */
export interface Problem {
  file: string;
  /** From 1. 0 if the problem has no position in the text, for example if the file cannot be read. */
  line: number;
  column: number;
  /** `groups[0].limits.rpm`; empty for the file as a whole. */
  field: string;
  /** What is wrong and what is valid. Never contains a value from the environment or of a secret field. */
  message: string;
}

export type Path = readonly (string | number)[];

/** A problem whose position in the text is not determined yet. */
export interface FieldProblem {
  path: Path;
  message: string;
  /** The name of the field is wrong, not its value. */
  onKey?: boolean;
}

export function fieldProblem(path: Path): string {
  let field = "";
  for (const part of path) {
    if (typeof part === "number") field += `[${part}]`;
    else if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(part)) field += field === "" ? part : `.${part}`;
    else field += `[${JSON.stringify(part)}]`;
  }
  return field;
}

export function formatProblem(problem: Problem): string {
  const position = problem.line === 0 ? problem.file : `${problem.file}:${problem.line}:${problem.column}`;
  return problem.field === ""
    ? `${position}  ${problem.message}`
    : `${position}  ${problem.field}: ${problem.message}`;
}

export function comparePositions(a: Problem, b: Problem): number {
  return a.line - b.line || a.column - b.column || a.field.localeCompare(b.field);
}
