/** Cuts named members out of JSON text, so that all other bytes can be compared. It has a parser of its own. */

/** Names from the outermost member on. An expression is the element of an array whose text it matches. */
export type MemberPath = readonly (string | RegExp)[];

interface Entry {
  /** Null for an element. */
  readonly name: string | null;
  /** Of the name, or of the element. */
  readonly start: number;
  readonly value: JsonNode;
}

interface JsonNode {
  readonly start: number;
  readonly end: number;
  readonly entries: readonly Entry[];
}

/** The text without these members and one comma beside each. A member that is absent is passed over. */
export function cutMembers(text: string, paths: readonly MemberPath[]): string {
  const root = new JsonText(text).readValue();
  const cuts = paths.flatMap((path) => findCuts(text, root, path)).sort((a, b) => b.start - a.start);
  return cuts.reduce((rest, { start, end }) => rest.slice(0, start) + rest.slice(end), text);
}

function findCuts(
  text: string,
  { entries }: JsonNode,
  [step, ...rest]: MemberPath,
): Omit<JsonNode, "entries">[] {
  const at = entries.findIndex(({ name, value }) =>
    step instanceof RegExp ? step.test(text.slice(value.start, value.end)) : name === step,
  );
  const entry = entries[at];
  if (entry === undefined) return [];
  if (rest.length > 0) return findCuts(text, entry.value, rest);
  const next = entries[at + 1];
  if (next !== undefined) return [{ start: entry.start, end: next.start }];
  return [{ start: entries[at - 1]?.value.end ?? entry.start, end: entry.value.end }];
}

const SPACE = /\s*/y;
const STRING = /"(?:[^"\\]|\\.)*"/y;
const SCALAR = /[^\s,\]}]+/y;

class JsonText {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  readValue(): JsonNode {
    this.#take(SPACE);
    const start = this.#at;
    const entries: Entry[] = [];
    const first = this.#text[start];
    if (first === "{" || first === "[") this.#readEntries(entries, first === "{");
    else this.#take(first === '"' ? STRING : SCALAR);
    return { start, end: this.#at, entries };
  }

  #readEntries(entries: Entry[], isObject: boolean): void {
    const close = isObject ? "}" : "]";
    this.#at++;
    this.#take(SPACE);
    while (this.#text[this.#at] !== close) {
      const start = this.#at;
      const name = isObject ? String(JSON.parse(this.#take(STRING))) : null;
      this.#take(SPACE);
      if (isObject) this.#expect(":");
      entries.push({ name, start, value: this.readValue() });
      this.#take(SPACE);
      if (this.#text[this.#at] !== close) this.#expect(",");
      this.#take(SPACE);
    }
    this.#at++;
  }

  #expect(char: string): void {
    if (this.#text[this.#at] !== char) throw new Error(`no ${char} at ${this.#at} of ${this.#text}`);
    this.#at++;
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found] = pattern.exec(this.#text) ?? [];
    if (found === undefined) throw new Error(`unexpected end at ${this.#at} of ${this.#text}`);
    this.#at += found.length;
    return found;
  }
}
