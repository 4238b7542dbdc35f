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

/** Returns the candidate that is one typing error away from `word`, if there is one. */
export function nearest(word: string, candidates: readonly string[]): string | null {
  let best: string | null = null;
  let bestDistance = Math.floor(word.length / 3) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase(), bestDistance);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/**
 * Edit distance in which swapping two neighbours counts as one edit. Stops at `enough`, so that long names stay
 * cheap.
 */
function editDistance(a: string, b: string, enough: number): number {
  if (Math.abs(a.length - b.length) >= enough) return enough;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped =
        a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? (beforeLast[j - 2] ?? 0) + 1 : replaced;
      row.push(Math.min(replaced, swapped, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? enough;
}
