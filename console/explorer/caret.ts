/** The position of the caret in an incomplete JSON text: in which object, at a name or at a value. */

export interface CaretPlace {
  /** Names and positions that lead to the object or value. */
  readonly path: readonly string[];
  readonly at: "name" | "value";
  /** The typed part, without its quote. */
  readonly typed: string;
  /** The range that a suggestion replaces. */
  readonly from: number;
  readonly to: number;
  /** Names that the object has already. */
  readonly taken: readonly string[];
}

interface Open {
  readonly isObject: boolean;
  name: string | null;
  index: number;
  taken: string[];
}

/** Null if nothing can be suggested: after a complete value, or outside of the body. */
export function placeOfCaret(text: string, caret: number): CaretPlace | null {
  const open: Open[] = [];
  let expectsName = false;
  let at = 0;
  while (at < text.length) {
    const char = text[at] ?? "";
    if (char === '"') {
      const end = endOfString(text, at);
      if (caret > at && caret <= end) return place(text, open, expectsName, at, end, caret);
      const top = open.at(-1);
      if (expectsName && top !== undefined) {
        top.name = text.slice(at + 1, end);
        top.taken.push(top.name);
      }
      at = end + 1;
      continue;
    }
    if (caret <= at) break;
    if (char === "{" || char === "[") {
      open.push({ isObject: char === "{", name: null, index: 0, taken: [] });
      expectsName = char === "{";
    } else if (char === "}" || char === "]") {
      open.pop();
      expectsName = false;
    } else if (char === ":") expectsName = false;
    else if (char === ",") {
      const top = open.at(-1);
      if (top !== undefined) top.index++;
      expectsName = top?.isObject === true;
    }
    at++;
  }
  return bare(text, open, expectsName, caret);
}

/** Inside a string that may not be closed: its end is then the end of the line. */
function place(
  text: string,
  open: readonly Open[],
  isName: boolean,
  start: number,
  end: number,
  caret: number,
): CaretPlace | null {
  const top = open.at(-1);
  if (top === undefined) return null;
  return {
    path: isName ? listNames(open.slice(0, -1)) : listNames(open),
    at: isName ? "name" : "value",
    typed: text.slice(start + 1, caret),
    from: start,
    to: text[end] === '"' ? end + 1 : end,
    taken: isName ? [...top.taken, ...laterNames(text, end + 1)] : [],
  };
}

function bare(text: string, open: readonly Open[], isName: boolean, caret: number): CaretPlace | null {
  const top = open.at(-1);
  if (top === undefined) return null;
  const before = text.slice(0, caret);
  const typed = /[\w.+-]*$/.exec(before)?.[0] ?? "";
  const last = before
    .slice(0, before.length - typed.length)
    .trimEnd()
    .at(-1);
  const isFree = isName ? last === "{" || last === "," : last === ":" || last === "[" || last === ",";
  if (!isFree) return null;
  return {
    path: isName ? listNames(open.slice(0, -1)) : listNames(open),
    at: isName ? "name" : "value",
    typed,
    from: caret - typed.length,
    to: caret,
    taken: isName ? [...top.taken, ...laterNames(text, caret)] : [],
  };
}

function listNames(open: readonly Open[]): string[] {
  return open.map(({ isObject, name, index }) => (isObject ? (name ?? "") : String(index)));
}

/** Names of the same object that come after the caret. */
function laterNames(text: string, from: number): string[] {
  const names: string[] = [];
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const char = text[at];
    if (char === '"') {
      const end = endOfString(text, at);
      const after = text.slice(end + 1).trimStart();
      if (depth === 0 && after.startsWith(":")) names.push(text.slice(at + 1, end));
      at = end;
    } else if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") {
      depth--;
      if (depth < 0) break;
    }
  }
  return names;
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"' || text[at] === "\n") return at;
  }
  return text.length;
}
