/**
 * Words that identify no account, organisation or host, although a capital letter or an underscore makes them look like
 * a name. The words of our error codes are among them. All in lower case.
 */

import { ERROR_CODES, UPSTREAM_CODES } from "../../errors.ts";

/** Of members of requests and responses, and of their values. A message may name one that the client did not send. */
const MEMBER_WORDS =
  "adaptive additional any arg arguments array assistant audio auto b64 background batch beta bias block bool " +
  "budget cache cached call candidate chat choice code completion compression config control count create created " +
  "creation custom declaration default deleted delta demand description detail developer dimension dimensionality " +
  "disable display document draft drop effort embed embedding enable encoding execution false feedback fidelity " +
  "filename finish first forced frequency function generate generation include incomplete index inline input " +
  "instruction int item k last len level list logit logprobs management mask max message metadata mime min modality " +
  "more n name next none null number object one options output p page parallel param part partial pattern penalty " +
  "presence properties property quality query read reason reasoning redacted reference refusal result revised role " +
  "safety schema search seed sequence service setting signature size source status stop str strict string " +
  "structured style summary system task temperature text thinking thought tier token top total true truncation ttl " +
  "turn user verbosity web x";

/** Of exception classes and statuses, which errors consist of. */
const ERROR_WORDS =
  "argument authentication bad balance calling cancelled connect deadline decode denied dev exception exhausted " +
  "fallback field gateway group incorrect internal invoke iterator literal malloc operation parser permission " +
  "precondition provider received requested runtime serialization settings undefined validation validator verify " +
  "window";

/** Formats and products: that they exist is public. */
const PRODUCTS =
  "ai anthropic azure bedrock chatgpt claude codex cohere cuda deepseek fireworks gemini google groq jinja2 litellm " +
  "llama lmstudio markdown microsoft mistral moonshot mp3 mp4 nvidia ollama open openai openrouter perplexity " +
  "pydantic python qwen router sglang together transformers unicode vertex vllm xai";

/** Of English grammar. They follow a noun such as `organization` without being its name. */
const GRAMMAR =
  "a after all also an and are as at be because been before but by can cannot could did do does from had has have " +
  "if into it may might must of on only or over please see should since than that the these this those under until " +
  "was we were when where whether which who whose will with within would you your";

/** The word after one of them is a name, unless it is a public word that may follow it. */
const NAMING_NOUNS =
  "account deployment org organisation organization project resource subscription team tenant user workspace";

const FOLLOWERS: ReadonlySet<string> = new Set(
  [...ERROR_CODES, ...UPSTREAM_CODES, MEMBER_WORDS, ERROR_WORDS, GRAMMAR, NAMING_NOUNS]
    .join(" ")
    .split(/[_ ]/),
);
const PUBLIC_WORDS: ReadonlySet<string> = new Set([...FOLLOWERS, ...PRODUCTS.split(" ")]);
const NAMING_NOUN_SET: ReadonlySet<string> = new Set(NAMING_NOUNS.split(" "));

export function isNamingNoun(word: string): boolean {
  return NAMING_NOUN_SET.has(word.toLowerCase());
}

const NAME_CHARS_MAX = 60;
/** `max_tokens`, `BadRequestError`, `ChatCompletions_Create`, `OBJECT`, `base64`. */
const NAME = /^_{0,2}[A-Za-z]+\d{0,2}(?:_[A-Za-z]+\d{0,2})*$/;
const PARTS = /[A-Z]+\d*(?![a-z])|[A-Z]?[a-z]+\d*/g;

export function isPublicWord(word: string): boolean {
  return hasWord(PUBLIC_WORDS, word);
}

/** Whether the word may follow a noun such as `organization` without being its name. Products are names of projects. */
export function mayFollowNoun(word: string): boolean {
  return hasWord(FOLLOWERS, word);
}

/** Plurals of public words are public. */
function hasWord(words: ReadonlySet<string>, word: string): boolean {
  const plain = word.toLowerCase();
  return words.has(plain) || words.has(plain.replace(/s$/, ""));
}

/** Whether an identifier consists only of public words. */
export function isPublicName(name: string): boolean {
  if (name.length > NAME_CHARS_MAX || !NAME.test(name)) return false;
  return isPublicWord(name) || (name.match(PARTS) ?? []).every(isPublicWord);
}
