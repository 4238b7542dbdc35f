/** Splits code into tokens for syntax highlighting. Pure, so that the documentation can use it at build time. */

export type TokenKind = "plain" | "comment" | "string" | "number" | "keyword" | "name" | "function";

export interface CodeToken {
  readonly kind: TokenKind;
  readonly text: string;
}

/** A rule is one alternative of the pattern of its language. It has no capturing groups. The first match wins. */
type Rule = readonly [kind: TokenKind, source: string];

// A string without its closing quote ends with the line or the code: to reject it would cost a scan for every quote.
const DOUBLE_QUOTED = String.raw`"(?:[^"\\\n]|\\.)*"?`;
const SINGLE_QUOTED = String.raw`'(?:[^'\\\n]|\\.)*'?`;
const SINGLE_QUOTED_LINES = String.raw`'(?:[^'\\]|\\[^])*'?`;
const BACK_QUOTED_LINES = "`(?:[^`\\\\]|\\\\[^])*`?";
const TRIPLE_QUOTED = `"""(?:(?!""")[^])*(?:""")?`;
const NUMBER: Rule = ["number", String.raw`(?<![\w.])-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])`];
const CALL: Rule = ["function", String.raw`\b[A-Za-z_]\w*(?=\()`];
const LITERALS: Rule = ["keyword", String.raw`\b(?:true|false|null)\b`];
const HASH_COMMENT: Rule = ["comment", String.raw`(?<=^|\s)#.*`];
const SLASH_COMMENT: Rule = ["comment", String.raw`(?<!:)//.*|/\*(?:(?!\*/)[^])*(?:\*/)?`];

function keywords(words: string): Rule {
  return ["keyword", String.raw`(?<![\w.$-])(?:${words.replaceAll(" ", "|")})(?![\w-])`];
}

const JSON_VALUES: readonly Rule[] = [
  ["name", String.raw`"(?:[^"\\\n]|\\.)*"(?=\s*:)`],
  ["string", DOUBLE_QUOTED],
  NUMBER,
  LITERALS,
];

const BASH: readonly Rule[] = [
  HASH_COMMENT,
  ["string", String.raw`"(?:[^"\\]|\\[^])*"?|'[^']*'?`],
  ["name", String.raw`\$\{\w+\}|\$\w+|\b[A-Z_][A-Z0-9_]*(?==)|(?<=\s)--?[A-Za-z][\w-]*`],
  keywords("if then else elif fi for in do done while case esac export"),
  // A command stands at the beginning of a line that does not continue another one, or after an operator.
  ["function", String.raw`(?<=(?<!\\\n[ \t]*)^[ \t]*(?:\$ )?|[|;&] *|\$\()[a-z][\w.-]*(?![\w.-]*[:=/])`],
];

const PYTHON: readonly Rule[] = [
  HASH_COMMENT,
  ["string", String.raw`(?:\b[rbfu]{1,2})?(?:${TRIPLE_QUOTED}|${DOUBLE_QUOTED}|${SINGLE_QUOTED})`],
  keywords(
    "and as assert async await break class continue def del elif else except finally for from if import in is lambda not or pass raise return try while with yield None True False",
  ),
  NUMBER,
  CALL,
];

const JAVASCRIPT: readonly Rule[] = [
  SLASH_COMMENT,
  ["string", `${DOUBLE_QUOTED}|${SINGLE_QUOTED}|${BACK_QUOTED_LINES}`],
  keywords(
    "as async await break case catch class const continue default delete do else export extends finally for from function if import in instanceof interface let new null of return static switch this throw true false try type typeof undefined var void while yield",
  ),
  NUMBER,
  CALL,
];

const YAML: readonly Rule[] = [
  HASH_COMMENT,
  [
    "name",
    String.raw`(?<=^[ \t]*(?:- +){0,3}|[{,] *)(?:${DOUBLE_QUOTED}|[\w$./*@][\w$./*@ -]*)(?=[ \t]*:(?:\s|$))`,
  ],
  // Only where a value begins: a plain value may contain an apostrophe.
  ["string", `(?<=[-:[{,] *)(?:${DOUBLE_QUOTED}|${SINGLE_QUOTED})`],
  NUMBER,
  LITERALS,
];

/** Requests, responses and event streams: header and field names, then JSON. */
const HTTP: readonly Rule[] = [
  ["keyword", String.raw`^(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\b|^HTTP/[\d.]+ \d{3}`],
  ["name", String.raw`^[A-Za-z][\w-]*(?=:)`],
  ...JSON_VALUES,
];

/** Also for nginx and systemd units: sections, names, values. */
const INI: readonly Rule[] = [
  HASH_COMMENT,
  ["keyword", String.raw`^\[{1,2}[^\]\n]+\]{1,2}`],
  ["name", String.raw`^[ \t]*[\w.-]+(?=[ \t]*=)`],
  ["string", `${DOUBLE_QUOTED}|${SINGLE_QUOTED}`],
  NUMBER,
  LITERALS,
];

const NGINX: readonly Rule[] = [
  HASH_COMMENT,
  ["keyword", String.raw`(?<=^[ \t]*)[a-z]\w*\b(?=[^\n]*\{)`],
  ["name", String.raw`(?<=^[ \t]*)[a-z]\w*`],
  ["string", `${DOUBLE_QUOTED}|${SINGLE_QUOTED}`],
  ["function", String.raw`\$\w+`],
  NUMBER,
];

function curlyLanguage(words: string): readonly Rule[] {
  const strings = [TRIPLE_QUOTED, DOUBLE_QUOTED, SINGLE_QUOTED_LINES, BACK_QUOTED_LINES].join("|");
  return [SLASH_COMMENT, ["string", strings], keywords(words), NUMBER, CALL];
}

const RULES: Readonly<Record<string, readonly Rule[]>> = {
  json: JSON_VALUES,
  bash: BASH,
  python: PYTHON,
  javascript: JAVASCRIPT,
  yaml: YAML,
  http: HTTP,
  ini: INI,
  nginx: NGINX,
  go: curlyLanguage(
    "break case const continue defer else for func go if import interface map nil package range return struct switch true false type var",
  ),
  java: curlyLanguage(
    "boolean catch class else false final for if implements import int interface new null package private public return static throw throws true try var void while",
  ),
  csharp: curlyLanguage(
    "async await catch class else false for foreach if in int namespace new null private public return static string throw true try using var void while",
  ),
  php: [
    HASH_COMMENT,
    ["keyword", String.raw`<\?php|\?>`],
    ["name", String.raw`\$\w+`],
    ...curlyLanguage(
      "array as catch class echo else false for foreach function if new null return throw true try use while",
    ),
  ],
  ruby: [
    HASH_COMMENT,
    ["string", `${DOUBLE_QUOTED}|${SINGLE_QUOTED_LINES}`],
    keywords(
      "begin class def do else elsif end ensure false for if in module nil next puts require rescue return self then true unless until while yield",
    ),
    ["name", String.raw`(?<!:):[a-z_]\w*|\b[a-z_]\w*:(?=\s)`],
    NUMBER,
    CALL,
  ],
};

const ALIASES: Readonly<Record<string, string>> = {
  console: "bash",
  js: "javascript",
  py: "python",
  sh: "bash",
  shell: "bash",
  toml: "ini",
  ts: "javascript",
  typescript: "javascript",
  yml: "yaml",
};

/** Longer code stays plain: the browser would need one element for each of its tokens. */
const CODE_CHARS_MAX = 200_000;

const patterns = new Map<string, RegExp>();

/** The tokens join to exactly `code`. Code in an unknown language is one plain token. */
export function highlight(code: string, language: string): CodeToken[] {
  const name = ALIASES[language] ?? language;
  const rules = Object.hasOwn(RULES, name) ? RULES[name] : undefined;
  if (rules === undefined || code.length > CODE_CHARS_MAX) return [{ kind: "plain", text: code }];
  const tokens: CodeToken[] = [];
  let end = 0;
  for (const match of code.matchAll(compile(name, rules))) {
    const [text, ...groups] = match;
    const [kind] = rules[groups.findIndex((group) => group !== undefined)] ?? [];
    if (kind === undefined || text === "") continue;
    if (match.index > end) tokens.push({ kind: "plain", text: code.slice(end, match.index) });
    tokens.push({ kind, text });
    end = match.index + text.length;
  }
  if (end < code.length) tokens.push({ kind: "plain", text: code.slice(end) });
  return tokens;
}

/** The class of `style/code.css` for a token; none for plain text. */
export function tokenClass(kind: TokenKind): string | undefined {
  return kind === "plain" ? undefined : `syntax-${kind}`;
}

function compile(name: string, rules: readonly Rule[]): RegExp {
  const pattern = patterns.get(name) ?? new RegExp(rules.map(([, source]) => `(${source})`).join("|"), "gm");
  patterns.set(name, pattern);
  return pattern;
}
