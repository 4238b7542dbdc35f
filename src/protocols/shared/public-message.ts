/**
 * An upstream's words made fit for a client: the reason stays, whatever could name an account, an organisation or a
 * credential goes.
 */

import { ERROR_WORDS, isExceptionName, isJoinedWords, isKnownIdentifier } from "./error-vocabulary.ts";
import type { AccountNames, Audience } from "./upstream-error.ts";

/** Names of the API that a message may need in order to help, beyond plain words. */
const API_WORDS = wordSet(
  "max_tokens max_completion_tokens max_output_tokens tool_choice tool_calls tool_call_id call_id " +
    "parallel_tool_calls response_format json_schema json_object reasoning_effort stream_options include_usage " +
    "previous_response_id prompt_cache_key service_tier top_p top_k top_logprobs logit_bias presence_penalty " +
    "frequency_penalty input_text output_text input_image image_url input_file file_data function_call " +
    "function_call_output custom_tool_call encrypted_content context_length_exceeded invalid_request_error " +
    "content_filter response_id item_reference output_format input_fidelity partial_images encoding_format " +
    "tool_call_ids additionalProperties patternProperties chatCompletion max_model_len base64 base64-encoded UTF-8 e.g i.e",
);

/** What a parameter's path is made of, so that `messages[0].content` passes and `host.example.com` does not. */
const PARAM_NAMES = wordSet(
  "messages input tools functions text reasoning metadata prompt image images mask audio content role name url " +
    "function parameters type format schema arguments id output strict description detail file_id filename data " +
    "summary effort properties items status refusal body query model stream seed stop user tool temperature index",
);

/** Written with capitals in the middle of a sentence, and known to everybody. In lower case. */
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

/** What may stand behind a noun such as `organization` without being the name of one. */
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
/** Between such a noun and the name itself. */
const NAMING_LINKS = wordSet("id name named called");

/** Parts of hosts and account names that identify nobody. */
const GENERIC_LABELS = wordSet("com net org dev app www cloud local localhost inference models up");

/** The last bracket may have been taken for punctuation. */
const PARAM_PATH = /^(?:[A-Za-z_]\w*|\$)(?:\[\d{1,6}(?:\]|$)|\.[A-Za-z_]\w*)+$/;
const PARAM = /^[A-Za-z_][\w.[\]]{0,127}$/;

const MESSAGE_CHARS_MAX = 1000;
const LOWER_WORD = /^[a-z']{0,20}$/;
const CAPITALISED_WORD = /^[A-Z][a-z']{0,19}$/;
/** And its plural. */
const ABBREVIATION = /^[A-Z]{1,5}s?$/;
/** Never with two dots: that is an address. Or a date, as versions of an API have it. */
const NUMBER =
  /^(?:-?\d{1,9}(?:,\d{3})*(?:\.\d{1,9})?(?:%|ms|s|m|h|[kKMG]i?B?)?|\d{2,5}x\d{2,5}|20\d\d-\d\d-\d\d(?:-preview)?)$/;
const UNIT = /^[kKMGT]i?B$/;
/** Between words, and no part of one. */
const PUNCTUATION = /^[-–—=*|/\\~+<>&]{1,3}$/;
/** `image(s)` */
const MAYBE_PLURAL = /^([A-Za-z]{2,20})\(s$/;
/** `name=value`, of which both are looked at. */
const ASSIGNMENT = /^([A-Za-z_][\w.]{0,40})=([^=].*)$/;
/** What stands between the words of JSON that is quoted in a message. */
const JSON_SEPARATOR = /([{}[\](),:;"']*["{}][{}[\](),:;"']*)/;
const EDGES = /^([("'`[{<]*)(.*?)((?:['’]s)?[)"'`\]}>.,;:!?]*)$/s;
/** Pages for everybody, which explain a refusal. */
const DOCUMENTATION =
  /^(?:https:\/\/)?(?:platform\.openai\.com\/docs|help\.openai\.com|go\.microsoft\.com\/fwlink|learn\.microsoft\.com|aka\.ms)(?:[/?#][\w\-/?=#&.]{0,100})?$/;
/** Words that a hyphen or slash joins in ordinary prose. Any two words would let names such as `acme-prod` through. */
const JOINED_WORDS =
  /^(?:non|pre|re|multi|sub|self|well|read|write|one|two|long|short|real|built|rate|zero|null|time|up|in|out|top|full|end|and|base64|mid|per|input|output)[-/][a-z]{1,14}$/i;

interface Word {
  before: string;
  core: string;
  after: string;
}

/** What the words before decide about the next one. */
interface Place {
  beginsSentence: boolean;
  followsException: boolean;
  /** The next word is a name that somebody gave. */
  isName: boolean;
  isModel: boolean;
}

/**
 * A word is kept if it is a plain word, a number, a name of the API, or something the client itself sent.
 * Everything else (ids, organisations, hosts, addresses, keys, whatever an upstream invents) is left out:
 * a list of bad shapes would always lack one. So is whatever the account is called by, plain or not.
 */
export function publicMessage(message: string, audience: Audience): string {
  const own = audience.account === null ? null : ownWords(audience.account);
  let place: Place = { beginsSentence: true, followsException: false, isName: false, isModel: false };
  const shown: string[] = [];
  for (const text of beginningOf(message).split(/\s+/)) {
    if (text === "") continue;
    let written = "";
    for (const word of wordsIn(text)) {
      written += `${word.before}${publicWord(word, place, own, audience)}${word.after}`;
      place = placeAfter(word, place);
    }
    shown.push(written);
  }
  return shown.join(" ").replace(/\[redacted\](?: \[redacted\])+/g, "[redacted]");
}

/** A parameter path such as `messages[0].content`: every name in it is the API's, or one the client sent. */
export function isPublicParam(param: string, audience: Audience): boolean {
  return PARAM.test(param) && isSafePath(param, audience);
}

/** Cut between words: half a secret can look like a plain word. */
function beginningOf(message: string): string {
  if (message.length <= MESSAGE_CHARS_MAX) return message;
  return message.slice(0, MESSAGE_CHARS_MAX).replace(/\S+$/, "");
}

function wordOf(text: string): Word {
  const [, before = "", core = "", after = ""] = EDGES.exec(text) ?? [];
  return { before, core, after };
}

/** One word, mostly. JSON without spaces has several. */
function wordsIn(text: string): Word[] {
  const pieces = text.split(JSON_SEPARATOR);
  if (pieces.length <= 3) return [wordOf(text)];
  const words: Word[] = [];
  for (let at = 0; at < pieces.length; at += 2) {
    const word = wordOf(pieces[at] ?? "");
    words.push({ ...word, after: word.after + (pieces[at + 1] ?? "") });
  }
  return words;
}

function placeAfter({ core, after }: Word, place: Place): Place {
  const noun = core.toLowerCase();
  // Quotes and brackets of JSON may stand between a noun and the name that follows.
  const goesOn = !/[.,;!?)]/.test(after);
  const isPause = after === ":" || PUNCTUATION.test(core);
  return {
    beginsSentence:
      /[.!?][)"'`]*$/.test(after) || (isPause && (isExceptionName(core) || place.followsException)),
    followsException: isExceptionName(core),
    isName: goesOn && (NAMING_NOUNS.has(noun) || (place.isName && NAMING_LINKS.has(noun))),
    isModel: goesOn && (noun === "model" || noun === "deployment"),
  };
}

function publicWord(word: Word, place: Place, own: ReadonlySet<string> | null, audience: Audience): string {
  const { core } = word;
  const assigned = ASSIGNMENT.exec(core);
  if (assigned !== null) return publicAssignment(assigned, place, own, audience);
  if (isUpstreamModel(word, place, audience.upstreamModel)) return audience.publicModel;
  if (core === audience.publicModel) return core;
  const isSafe = !isOwn(core, own, audience) && isSafeWord(core, place, audience);
  return isSafe || (core.length >= 2 && audience.mentions(core)) ? core : "[redacted]";
}

function publicAssignment(
  [, name = "", value = ""]: RegExpExecArray,
  place: Place,
  own: ReadonlySet<string> | null,
  audience: Audience,
): string {
  const left = publicWord(wordOf(name), place, own, audience);
  const right = wordOf(value);
  const shown = publicWord(right, placeAfter({ before: "", core: name, after: "" }, place), own, audience);
  const isSafe = shown !== right.core || isKnownValue(right.core, audience);
  return `${left}=${right.before}${isSafe ? shown : "[redacted]"}${right.after}`;
}

/** What is assigned may be a password of plain letters, so a plain word has to be known here. */
function isKnownValue(value: string, audience: Audience): boolean {
  const plain = value.toLowerCase();
  if (value === "" || value === audience.publicModel || NUMBER.test(value)) return true;
  if (ERROR_WORDS.has(plain) || KNOWN_NAMES.has(plain) || API_WORDS.has(value)) return true;
  return isKnownIdentifier(value) || (value.length >= 2 && audience.mentions(value));
}

/** A name of plain letters (`chat`) is an ordinary word too, unless it stands where only a name would. */
function isUpstreamModel({ before, core, after }: Word, place: Place, upstreamModel: string): boolean {
  if (core !== upstreamModel) return core.endsWith(`/${upstreamModel}`);
  return !/^[a-z]+$/.test(core) || place.isModel || (/["'`]$/.test(before) && /^["'`]/.test(after));
}

function isSafeWord(word: string, { beginsSentence, isName }: Place, audience: Audience): boolean {
  const plain = word.toLowerCase();
  if (isName) return word === "" || FOLLOWERS.has(plain) || NAMING_LINKS.has(plain);
  if (LOWER_WORD.test(word) || ABBREVIATION.test(word) || KNOWN_NAMES.has(plain)) return true;
  if (PUNCTUATION.test(word) || UNIT.test(word)) return true;
  if (isWritten(word) && ERROR_WORDS.has(plain)) return true;
  if (isKnownIdentifier(word) || isJoinedWords(word)) return true;
  const [, singular] = MAYBE_PLURAL.exec(word) ?? [];
  if (singular !== undefined) return ERROR_WORDS.has(singular.toLowerCase());
  if (beginsSentence && CAPITALISED_WORD.test(word)) return true;
  if (NUMBER.test(word) || API_WORDS.has(word) || JOINED_WORDS.test(word)) return true;
  return DOCUMENTATION.test(word) || (PARAM_PATH.test(word) && isSafePath(word, audience));
}

/** As a sentence or a heading writes a word. */
function isWritten(word: string): boolean {
  return CAPITALISED_WORD.test(word) || /^[A-Z]+$/.test(word);
}

function isSafePath(path: string, audience: Audience): boolean {
  return path
    .split(/[.[\]]+/)
    .filter((name) => name !== "" && name !== "$" && !/^\d+$/.test(name))
    .every((name) => PARAM_NAMES.has(name) || API_WORDS.has(name) || audience.mentions(`"${name}"`));
}

/** The account's words may be part of a longer one: of a host's name, of an address. */
function isOwn(word: string, own: ReadonlySet<string> | null, audience: Audience): boolean {
  if (own === null) return false;
  if (own.has(word.toLowerCase())) return true;
  return partsOf(word).some((part) => own.has(part.toLowerCase()) && !audience.mentions(part));
}

const OWN_CHARS_MIN = 3;

/** The words that name the account, in lower case. Ordinary words are not among them: they name nobody. */
function ownWords({ name, credential, baseUrl }: AccountNames): ReadonlySet<string> {
  const { hostname, pathname } = new URL(baseUrl);
  const own = [name, ...partsOf(`${name} ${credential ?? ""} ${hostname} ${pathname}`)]
    .map((word) => word.toLowerCase())
    .filter((word) => word.length >= OWN_CHARS_MIN && !isOrdinary(word));
  return new Set(credential === null ? own : [...own, credential.toLowerCase()]);
}

function isOrdinary(word: string): boolean {
  return [KNOWN_NAMES, FOLLOWERS, NAMING_NOUNS, GENERIC_LABELS, ERROR_WORDS].some((words) => words.has(word));
}

function partsOf(text: string): string[] {
  return text.split(/[^A-Za-z0-9]+/).filter((part) => part !== "");
}

function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.split(" "));
}
