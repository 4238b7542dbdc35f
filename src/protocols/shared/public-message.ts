/** Rewrites upstream messages for clients: redacts what could identify an account or a credential. */

import { isNamingNoun, isPublicName, isPublicWord, mayFollowNoun } from "./public-words.ts";
import type { AccountNames, Audience } from "./upstream-error.ts";

/** Words between a noun such as `organization` and its name. */
const NAMING_LINKS = wordSet("id name named called group number");

/** Parts of hosts and account names that identify nothing. */
const GENERIC_LABELS = wordSet("com net dev app www cloud local localhost inference main primary");

const MESSAGE_CHARS_MAX = 1000;
const PLAIN_WORD = /^[a-z'’]{0,20}(?:\(s)?$/;
/** Also its plural. */
const ABBREVIATION = /^[A-Z]{1,5}s?$/;
/** Never with two dots, which would be an address. Or a date, as in API versions. */
const NUMBER =
  /^(?:-?\d{1,9}(?:,\d{3})*(?:\.\d{1,9})?(?:%|ms|s|m|h|[kKMG]i?B?)?|\d{2,5}x\d{2,5}|20\d\d-\d\d(?:-\d\d)?(?:-preview)?)$/;
const UNIT = /^[kKMGT]i?B$/;
/** Between words, not part of one. */
const PUNCTUATION = /^[-–—=*|/\\~+<>&]{1,3}$/;
const FIXED_TERM =
  /^(?:e\.g|i\.e|on-demand|UTF-(?:8|16)|(?:image|audio|video)\/[a-z0-9]{2,5}|application\/(?:json|pdf)|text\/(?:plain|html|csv|markdown))$/;
/** `a-z`, `0-9` */
const CHARACTER_RANGE = /^[A-Za-z0-9]-[A-Za-z0-9]$/;
/** Public documentation pages that explain an error. */
const DOCUMENTATION =
  /^(?:https:\/\/)?(?:platform\.openai\.com\/docs|help\.openai\.com|go\.microsoft\.com\/fwlink|learn\.microsoft\.com|aka\.ms)(?:[/?#][\w\-/?=#&.]{0,100})?$/;
/** Hyphenated words of ordinary prose. Accepting any two would let names like `acme-prod` through. */
const JOINED_WORDS =
  /^(?:[Nn]on|[Pp]re|re|[Mm]ulti|sub|self|well|read|write|one|two|long|short|real|built|rate|zero|null|time|up|in|out|top|full|end|and|base64|mid|per|input|output)[-/][a-z]{1,14}$/;

/** Shapes that no key, id, address or name of an account has. */
const HARMLESS = [
  PLAIN_WORD,
  ABBREVIATION,
  NUMBER,
  UNIT,
  PUNCTUATION,
  FIXED_TERM,
  CHARACTER_RANGE,
  DOCUMENTATION,
  JOINED_WORDS,
];

/** In the middle of a sentence it is a name. */
const CAPITALISED_WORD = /^[A-Z][a-z']{0,19}$/;
/** Flags of programs and names of headers: `--enable-auto-tool-choice`, `x-api-key`. */
const HYPHENATED_NAME = /^(?:--?|(?:x|anthropic|content)-)[a-z]+(?:-[a-z]+)*$/i;
/** `messages[0].content`, `litellm.BadRequestError`, `v1/chat/completions`, `role:user`, `#/messages/0`. */
const PATH = /^[A-Za-z_$#/][\w.:/[\]]{0,127}$/;
/** `gateway.internal`, `search.ai`, `vllm:8000`, and two numbers in a row, which could be an address. */
const ADDRESS = /\.(?:internal|local|ai|dev|org)\b|:\d|\d[.:/]+\d/i;
const PATH_INDEX = /^(?:\d{1,6}|v\d{1,2}|[$#])$/;
const EXCEPTION_NAME = /(?:Error|Exception|Timeout|Failure)$/;
/** `name=value`; both are checked. */
const ASSIGNMENT = /^([A-Za-z_][\w.]{0,40})=([^=]+)$/;
/** Separators of JSON that is quoted in a message. The first repetition is bounded, so that the work stays linear. */
const JSON_SEPARATOR = /([{}[\](),:;"']{0,8}(?:["{}]|\[\()[{}[\](),:;"']*)/;
const OPENING = /^[("'`[{<]*/;
const CLOSING = ")\"'`]}>.,;:!?";

interface Word {
  before: string;
  core: string;
  after: string;
}

/** What the preceding words decide about the next one. */
interface WordContext {
  beginsSentence: boolean;
  followsException: boolean;
  /** The next word is a name chosen by a user or organisation. */
  isName: boolean;
  isModel: boolean;
}

/**
 * Keeps a word if its shape is harmless, if it consists of public words, or if the client itself sent it. Everything
 * else (keys, ids, addresses, hosts, names) is redacted: a list of forbidden shapes would always be incomplete. Words
 * that name the account are always redacted.
 */
export function publicMessage(message: string, audience: Audience): string {
  const accountTerms = audience.account === null ? null : accountWords(audience.account);
  let wordContext: WordContext = {
    beginsSentence: true,
    followsException: false,
    isName: false,
    isModel: false,
  };
  const publicWords: string[] = [];
  for (const text of truncateMessage(message).split(/\s+/)) {
    if (text === "") continue;
    let publicText = "";
    for (const word of splitWords(text)) {
      publicText += `${word.before}${publicWord(word, wordContext, accountTerms, audience)}${word.after}`;
      wordContext = contextAfter(word, wordContext);
    }
    publicWords.push(publicText);
  }
  return publicWords.join(" ").replace(/\[redacted\](?: \[redacted\])+/g, "[redacted]");
}

/** Truncates between words: half a secret can look like a plain word. */
function truncateMessage(message: string): string {
  if (message.length <= MESSAGE_CHARS_MAX) return message;
  let end = MESSAGE_CHARS_MAX;
  while (end > 0 && !/\s/.test(message.charAt(end - 1))) end--;
  return message.slice(0, end);
}

/** Separates a word from the quotes, brackets and punctuation around it, and from a possessive `'s`. */
function parseWord(text: string): Word {
  const start = OPENING.exec(text)?.[0].length ?? 0;
  let end = text.length;
  while (end > start && CLOSING.includes(text.charAt(end - 1))) end--;
  if (end - 2 >= start && /['’]s/.test(text.slice(end - 2, end))) end -= 2;
  return { before: text.slice(0, start), core: text.slice(start, end), after: text.slice(end) };
}

/** Mostly one word. JSON without spaces has several. */
function splitWords(text: string): Word[] {
  const pieces = text.split(JSON_SEPARATOR);
  if (pieces.length === 1) return [parseWord(text)];
  const words: Word[] = [];
  for (let at = 0; at < pieces.length; at += 2) {
    const word = parseWord(pieces[at] ?? "");
    words.push({ ...word, after: word.after + (pieces[at + 1] ?? "") });
  }
  return words;
}

function contextAfter({ core, after }: Word, wordContext: WordContext): WordContext {
  const noun = core.toLowerCase();
  // Quotes and brackets of JSON may be between a noun and the name that follows.
  const isContinued = !/[.,;!?)]/.test(after);
  const isPause = after === ":" || PUNCTUATION.test(core);
  return {
    beginsSentence:
      /[.!?][)"'`]*$/.test(after) || (isPause && (isExceptionName(core) || wordContext.followsException)),
    followsException: isExceptionName(core),
    isName: isContinued && (isNamingNoun(noun) || (wordContext.isName && NAMING_LINKS.has(noun))),
    isModel: isContinued && (noun === "model" || noun === "deployment"),
  };
}

function publicWord(
  word: Word,
  wordContext: WordContext,
  accountTerms: ReadonlySet<string> | null,
  audience: Audience,
): string {
  const { core } = word;
  const assignment = ASSIGNMENT.exec(core);
  if (assignment !== null) return publicAssignment(assignment, wordContext, accountTerms, audience);
  if (isUpstreamModel(word, wordContext, audience.upstreamModel)) return audience.publicModel;
  if (core === audience.publicModel) return core;
  const isSafe = !isAccountWord(core, accountTerms, audience) && isSafeWord(core, wordContext, audience);
  return isSafe || (core.length >= 2 && audience.mentions(core)) ? core : "[redacted]";
}

function publicAssignment(
  [, name = "", value = ""]: RegExpExecArray,
  wordContext: WordContext,
  accountTerms: ReadonlySet<string> | null,
  audience: Audience,
): string {
  const left = publicWord(parseWord(name), wordContext, accountTerms, audience);
  const right = parseWord(value);
  const shown = publicWord(
    right,
    contextAfter({ before: "", core: name, after: "" }, wordContext),
    accountTerms,
    audience,
  );
  const isSafe = shown !== right.core || isPublicValue(right.core, audience);
  return `${left}=${right.before}${isSafe ? shown : "[redacted]"}${right.after}`;
}

/** An assigned value may be a password of plain letters, so a plain word must be a public one here. */
function isPublicValue(value: string, audience: Audience): boolean {
  if (value === "" || value === audience.publicModel || NUMBER.test(value)) return true;
  return isPublicName(value) || (value.length >= 2 && audience.mentions(value));
}

/** A model name of plain letters (`chat`) is an ordinary word too, unless its position requires a name. */
function isUpstreamModel(
  { before, core, after }: Word,
  wordContext: WordContext,
  upstreamModel: string,
): boolean {
  if (core !== upstreamModel) return core.endsWith(`/${upstreamModel}`);
  return !/^[a-z]+$/.test(core) || wordContext.isModel || (/["'`]$/.test(before) && /^["'`]/.test(after));
}

function isSafeWord(word: string, { beginsSentence, isName }: WordContext, audience: Audience): boolean {
  if (isName) return word === "" || mayFollowNoun(word) || NAMING_LINKS.has(word.toLowerCase());
  if (HARMLESS.some((shape) => shape.test(word)) || isPublicName(word)) return true;
  if (beginsSentence && CAPITALISED_WORD.test(word)) return true;
  if (HYPHENATED_NAME.test(word)) return splitParts(word).every(isPublicWord);
  return isPublicPath(word, audience);
}

/** Whether every name in a path such as `messages[0].content` belongs to the API or was sent by the client. */
export function isPublicPath(path: string, audience: Audience): boolean {
  return unknownNames(path)?.every((name) => audience.mentions(`"${name}"`)) ?? false;
}

/** The names in a path that do not consist of public words; null if it is no path. */
function unknownNames(path: string): string[] | null {
  if (!PATH.test(path) || ADDRESS.test(path)) return null;
  return path
    .split(/[.:/[\]]+/)
    .filter((name) => name !== "" && !PATH_INDEX.test(name) && !isPublicName(name));
}

/** The class name of an exception: a sentence follows it. */
function isExceptionName(word: string): boolean {
  return EXCEPTION_NAME.test(word) && unknownNames(word)?.length === 0;
}

/** The account's words may be part of a longer word: of a host name or an address. */
function isAccountWord(word: string, accountTerms: ReadonlySet<string> | null, audience: Audience): boolean {
  if (accountTerms === null) return false;
  if (accountTerms.has(word.toLowerCase())) return true;
  return splitParts(word).some((part) => accountTerms.has(part.toLowerCase()) && !audience.mentions(part));
}

const ACCOUNT_WORD_CHARS_MIN = 3;

/** The words that identify the account, in lower case, without ordinary words. */
function accountWords({ name, credential, baseUrl, project, models }: AccountNames): ReadonlySet<string> {
  const { hostname, pathname } = new URL(baseUrl);
  const texts = [name, credential ?? "", hostname, pathname, project ?? ""];
  const accountTerms = [name, ...Object.values(models ?? {}), ...texts.flatMap(splitParts)]
    .map((word) => word.toLowerCase())
    .filter((word) => word.length >= ACCOUNT_WORD_CHARS_MIN && !isOrdinary(word));
  return new Set(credential === null ? accountTerms : [...accountTerms, credential.toLowerCase()]);
}

function isOrdinary(word: string): boolean {
  return isPublicWord(word) || GENERIC_LABELS.has(word);
}

function splitParts(text: string): string[] {
  return text.split(/[^A-Za-z0-9]+/).filter((part) => part !== "");
}

function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.split(" "));
}
