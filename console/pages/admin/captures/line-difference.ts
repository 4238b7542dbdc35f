/** The difference between two texts by lines, as short as possible (Myers). */

export interface DifferenceLine {
  kind: "same" | "removed" | "added";
  text: string;
}

/** Texts that differ in more lines are shown as replaced: the search would take too long for an unreadable result. */
const CHANGES_MAX = 600;

export function compareLines(before: string, after: string): DifferenceLine[] {
  const a = before.split("\n");
  const b = after.split("\n");
  let from = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  let endA = a.length;
  let endB = b.length;
  while (endA > from && endB > from && a[endA - 1] === b[endB - 1]) {
    endA--;
    endB--;
  }
  return [
    ...lines("same", a.slice(0, from)),
    ...compareMiddle(a.slice(from, endA), b.slice(from, endB)),
    ...lines("same", a.slice(endA)),
  ];
}

function lines(kind: DifferenceLine["kind"], texts: readonly string[]): DifferenceLine[] {
  return texts.map((text) => ({ kind, text }));
}

function compareMiddle(a: readonly string[], b: readonly string[]): DifferenceLine[] {
  const rounds = a.length === 0 || b.length === 0 ? null : findPath(a, b);
  if (rounds === null) return [...lines("removed", a), ...lines("added", b)];
  return followBack(a, b, rounds);
}

/** For each number of changes: the furthest line of `a` on each diagonal before that round. Null: too many changes. */
function findPath(a: readonly string[], b: readonly string[]): Map<number, number>[] | null {
  const furthest = new Map<number, number>([[1, 0]]);
  const rounds: Map<number, number>[] = [];
  for (let changes = 0; changes <= Math.min(a.length + b.length, CHANGES_MAX); changes++) {
    rounds.push(new Map(furthest));
    for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
      let x = isDown(furthest, diagonal, changes)
        ? (furthest.get(diagonal + 1) ?? 0)
        : (furthest.get(diagonal - 1) ?? 0) + 1;
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x++;
      furthest.set(diagonal, x);
      if (x >= a.length && x - diagonal >= b.length) return rounds;
    }
  }
  return null;
}

function isDown(furthest: ReadonlyMap<number, number>, diagonal: number, changes: number): boolean {
  if (diagonal === -changes) return true;
  if (diagonal === changes) return false;
  return (furthest.get(diagonal - 1) ?? -1) < (furthest.get(diagonal + 1) ?? -1);
}

function followBack(
  a: readonly string[],
  b: readonly string[],
  rounds: readonly ReadonlyMap<number, number>[],
): DifferenceLine[] {
  const found: DifferenceLine[] = [];
  let x = a.length;
  let y = b.length;
  for (let changes = rounds.length - 1; changes >= 0; changes--) {
    const furthest = rounds[changes] ?? new Map<number, number>();
    const diagonal = x - y;
    const previous = isDown(furthest, diagonal, changes) ? diagonal + 1 : diagonal - 1;
    const previousX = changes === 0 ? 0 : (furthest.get(previous) ?? 0);
    const previousY = changes === 0 ? 0 : previousX - previous;
    while (x > previousX && y > previousY && x > 0 && y > 0 && a[x - 1] === b[y - 1]) {
      found.push({ kind: "same", text: a[--x] ?? "" });
      y--;
    }
    if (changes === 0) break;
    if (x === previousX) found.push({ kind: "added", text: b[--y] ?? "" });
    else found.push({ kind: "removed", text: a[--x] ?? "" });
  }
  return found.reverse();
}

/** A run of equal lines that is left out. */
export interface OmittedLines {
  kind: "omitted";
  count: number;
}

const CONTEXT_LINES = 3;

/** Leaves out equal lines that are further than a few lines from a change. */
export function withContext(all: readonly DifferenceLine[]): (DifferenceLine | OmittedLines)[] {
  const isNear = new Array<boolean>(all.length).fill(false);
  all.forEach(({ kind }, at) => {
    if (kind === "same") return;
    for (let i = Math.max(0, at - CONTEXT_LINES); i <= Math.min(all.length - 1, at + CONTEXT_LINES); i++)
      isNear[i] = true;
  });
  const shown: (DifferenceLine | OmittedLines)[] = [];
  for (const [at, line] of all.entries()) {
    const last = shown.at(-1);
    if (isNear[at]) shown.push(line);
    else if (last?.kind === "omitted") last.count++;
    else shown.push({ kind: "omitted", count: 1 });
  }
  return shown;
}
