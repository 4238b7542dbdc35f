/**
 * Rewrites an upstream error message for clients: the reason stays, and everything that could identify an account, an
 * organisation or a credential is redacted.
 */

import { ERROR_WORDS, isExceptionName, isJoinedWords, isKnownIdentifier } from "./error-vocabulary.ts";
import type { AccountNames, Audience } from "./upstream-error.ts";

/** Names of the API that a message may need to be helpful, in addition to plain words. */
const API_WORDS = wordSet(
  "max_tokens max_completion_tokens max_output_tokens tool_choice tool_calls tool_call_id call_id " +
    "parallel_tool_calls response_format json_schema json_object reasoning_effort stream_options include_usage " +
    "previous_response_id prompt_cache_key service_tier top_p top_k top_logprobs logit_bias presence_penalty " +
    "frequency_penalty input_text output_text input_image image_url input_file file_data function_call " +
    "function_call_output custom_tool_call encrypted_content context_length_exceeded invalid_request_error " +
    "content_filter response_id item_reference output_format input_fidelity partial_images encoding_format " +
    "tool_use tool_use_id tool_result tool_results redacted_thinking budget_tokens input_schema cache_control media_type " +
    "stop_sequences output_config context_management stop_reason system_prompt web_search code_execution " +
    "disable_parallel_tool_use anthropic-beta anthropic-version x-api-key count_tokens thinking_delta input_tokens " +
    "tool_call_ids additionalProperties patternProperties chatCompletion max_model_len base64 base64-encoded UTF-8 e.g i.e",
);

/** The names in parameter paths, so that `messages[0].content` passes and `host.example.com` does not. */
const PARAM_NAMES = wordSet(
  "messages input tools functions text reasoning metadata prompt image images mask audio content role name url " +
    "function parameters type format schema arguments id output strict description detail file_id filename data " +
    "thinking signature source system custom base64 enabled adaptive cache_control document ttl " +
    "summary effort properties items status refusal body query model stream seed stop user tool temperature index",
);

/** Names written with capitals in the middle of a sentence that are public. In lower case. */
const KNOWN_NAMES = wordSet(
  "openai chatgpt gpt codex azure microsoft foundry vllm ollama llama anthropic claude google gemini mistral " +
    "deepseek qwen hugging face api json jsonl schema url uri http https html xml mime ascii unicode base64 utf pdf " +
    "png jpeg jpg gif webp webm mp3 mp4 wav markdown python javascript typescript english tokens " +
    "responses chat completions embeddings images files assistants realtime batch moderations structured outputs " +
    "bearer authorization request response service model input output error warning invalid unsupported missing " +
    "expected unknown unrecognized unexpected unprocessable bad value only please the this these in you your we it " +
    "if at use see verify organization got must cannot could failed field extra object array string integer number boolean null none " +
    "true false nan infinity get post head january february march april may june july august september october " +
    "november december monday tuesday wednesday thursday friday saturday sunday",
);

/** Words that may follow a noun such as `organization` without being a name. */
const FOLLOWERS = wordSet(
  "a an the is are was were be been has have had does do did must may might can cannot could should will would not " +
    "and or but in on at of for to with by from that which who whose before after as if when because since within " +
    "under over into out whether until exceeded reached exceeds lacks needs uses used quota limit limits rate key " +
    "keys message messages role roles input inputs prompt prompts content turn turns text data token tokens request " +
    "requests settings dashboard page billing admin administrator level tier type types policy region location " +
    "access owner found exists configuration parameter field value item items also only already currently still " +
    "temporarily deactivated disabled suspended inactive active expired invalid missing unknown available " +
    "unavailable error errors must need there no one two default main primary",
);
const NAMING_NOUNS = wordSet(
  "organization organisation org project account tenant subscription deployment resource user",
);
/** Words between such a noun and the name itself. */
const NAMING_LINKS = wordSet("id name named called");

/** Parts of hosts and account names that identify nothing. */
const GENERIC_LABELS = wordSet("com net org dev app www cloud local localhost inference models up");

/** Never two numbers in a row, which could be an address. The last bracket may have been split off as punctuation. */
const PARAM_PATH = /^(?:[A-Za-z_]\w*|\$)(?:\[\d{1,6}(?:\]|$)|\.[A-Za-z_]\w*|\.\d{1,4}(?=\.[A-Za-z_]|$))+$/;
const PARAM = /^[A-Za-z_][\w.[\]]{0,127}$/;

const MESSAGE_CHARS_MAX = 1000;
const LOWER_WORD = /^[a-z']{0,20}$/;
const CAPITALISED_WORD = /^[A-Z][a-z']{0,19}$/;
/** Also its plural. */
const ABBREVIATION = /^[A-Z]{1,5}s?$/;
/** Never with two dots, which would be an address. Or a date, as in API versions. */
const NUMBER =
  /^(?:-?\d{1,9}(?:,\d{3})*(?:\.\d{1,9})?(?:%|ms|s|m|h|[kKMG]i?B?)?|\d{2,5}x\d{2,5}|20\d\d-\d\d-\d\d(?:-preview)?)$/;
const UNIT = /^[kKMGT]i?B$/;
/** Between words, not part of one. */
const PUNCTUATION = /^[-–—=*|/\\~+<>&]{1,3}$/;
/** `image(s)` */
const MAYBE_PLURAL = /^([A-Za-z]{2,20})\(s$/;
/** `name=value`; both are checked. */
const ASSIGNMENT = /^([A-Za-z_][\w.]{0,40})=([^=].*)$/;
/** Separators of JSON that is quoted in a message. */
const JSON_SEPARATOR = /([{}[\](),:;"']*["{}][{}[\](),:;"']*)/;
const EDGES = /^([("'`[{<]*)(.*?)((?:['’]s)?[)"'`\]}>.,;:!?]*)$/s;
/** Public documentation pages that explain an error. */
const DOCUMENTATION =
  /^(?:https:\/\/)?(?:platform\.openai\.com\/docs|help\.openai\.com|go\.microsoft\.com\/fwlink|learn\.microsoft\.com|aka\.ms)(?:[/?#][\w\-/?=#&.]{0,100})?$/;
/**
 * Words joined by a hyphen or slash in ordinary prose. Accepting any two words would let names such as `acme-prod`
 * through.
 */
const JOINED_WORDS =
  /^(?:non|pre|re|multi|sub|self|well|read|write|one|two|long|short|real|built|rate|zero|null|time|up|in|out|top|full|end|and|base64|mid|per|input|output)[-/][a-z]{1,14}$/i;

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
 * Keeps a word if it is a plain word, a number, a name of the API, or something the client itself sent. Everything else
 * (ids, organisations, hosts, addresses, keys, unknown text) is redacted: a deny-list would always be incomplete. Words
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

/**
 * Whether every name in a parameter path such as `messages[0].content` belongs to the API or was sent by the client.
 */
export function isPublicParam(param: string, audience: Audience): boolean {
  return PARAM.test(param) && isSafePath(param, audience);
}

/** Truncates between words: half a secret can look like a plain word. */
function truncateMessage(message: string): string {
  if (message.length <= MESSAGE_CHARS_MAX) return message;
  return message.slice(0, MESSAGE_CHARS_MAX).replace(/\S+$/, "");
}

function parseWord(text: string): Word {
  const [, before = "", core = "", after = ""] = EDGES.exec(text) ?? [];
  return { before, core, after };
}

/** Mostly one word. JSON without spaces has several. */
function splitWords(text: string): Word[] {
  const pieces = text.split(JSON_SEPARATOR);
  if (pieces.length <= 3) return [parseWord(text)];
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
    isName: isContinued && (NAMING_NOUNS.has(noun) || (wordContext.isName && NAMING_LINKS.has(noun))),
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
  const isSafe = shown !== right.core || isKnownValue(right.core, audience);
  return `${left}=${right.before}${isSafe ? shown : "[redacted]"}${right.after}`;
}

/** An assigned value may be a password of plain letters, so a plain word must be a known one here. */
function isKnownValue(value: string, audience: Audience): boolean {
  const plain = value.toLowerCase();
  if (value === "" || value === audience.publicModel || NUMBER.test(value)) return true;
  if (ERROR_WORDS.has(plain) || KNOWN_NAMES.has(plain) || API_WORDS.has(value)) return true;
  return isKnownIdentifier(value) || (value.length >= 2 && audience.mentions(value));
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
  const plain = word.toLowerCase();
  if (isName) return word === "" || FOLLOWERS.has(plain) || NAMING_LINKS.has(plain);
  if (LOWER_WORD.test(word) || ABBREVIATION.test(word) || KNOWN_NAMES.has(plain)) return true;
  if (PUNCTUATION.test(word) || UNIT.test(word)) return true;
  if (isCapitalised(word) && ERROR_WORDS.has(plain)) return true;
  if (isKnownIdentifier(word) || isJoinedWords(word)) return true;
  const [, singular] = MAYBE_PLURAL.exec(word) ?? [];
  if (singular !== undefined) return ERROR_WORDS.has(singular.toLowerCase());
  if (beginsSentence && CAPITALISED_WORD.test(word)) return true;
  if (NUMBER.test(word) || API_WORDS.has(word) || JOINED_WORDS.test(word)) return true;
  return DOCUMENTATION.test(word) || (PARAM_PATH.test(word) && isSafePath(word, audience));
}

/** Capitalised as in a sentence or a heading. */
function isCapitalised(word: string): boolean {
  return CAPITALISED_WORD.test(word) || /^[A-Z]+$/.test(word);
}

function isSafePath(path: string, audience: Audience): boolean {
  return path
    .split(/[.[\]]+/)
    .filter((name) => name !== "" && name !== "$" && !/^\d+$/.test(name))
    .every((name) => PARAM_NAMES.has(name) || API_WORDS.has(name) || audience.mentions(`"${name}"`));
}

/** The account's words may be part of a longer word: of a host name or an address. */
function isAccountWord(word: string, accountTerms: ReadonlySet<string> | null, audience: Audience): boolean {
  if (accountTerms === null) return false;
  if (accountTerms.has(word.toLowerCase())) return true;
  return splitParts(word).some((part) => accountTerms.has(part.toLowerCase()) && !audience.mentions(part));
}

const ACCOUNT_WORD_CHARS_MIN = 3;

/** The words that identify the account, in lower case, without ordinary words. */
function accountWords({ name, credential, baseUrl }: AccountNames): ReadonlySet<string> {
  const { hostname, pathname } = new URL(baseUrl);
  const accountTerms = [name, ...splitParts(`${name} ${credential ?? ""} ${hostname} ${pathname}`)]
    .map((word) => word.toLowerCase())
    .filter((word) => word.length >= ACCOUNT_WORD_CHARS_MIN && !isOrdinary(word));
  return new Set(credential === null ? accountTerms : [...accountTerms, credential.toLowerCase()]);
}

function isOrdinary(word: string): boolean {
  return [KNOWN_NAMES, FOLLOWERS, NAMING_NOUNS, GENERIC_LABELS, ERROR_WORDS].some((words) => words.has(word));
}

function splitParts(text: string): string[] {
  return text.split(/[^A-Za-z0-9]+/).filter((part) => part !== "");
}

function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.split(" "));
}
