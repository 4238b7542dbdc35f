/** The words that upstream errors consist of and that identify no account, organisation or host. All in lower case. */

/** Ordinary words. They are kept with a capital letter in the middle of a sentence, and as parts of an identifier. */
const WORDS =
  "ability above accept accepted access according action active actual add additional after again all allow allowed " +
  "already also always amount another any application argument arguments array arrays ask assistant at attempt " +
  "attribute audio auth authenticate authentication authorized auto available average avoid backend bad base batch " +
  "because before begin below between block blocked body boolean both bound budget buffer busy by bytes cache cached " +
  "call called calls can cancelled cannot capacity case cause chain change character characters chat check choice " +
  "choices choose chunk class client closed code codes column combined command complete completed completion " +
  "completions compute concurrent configured conflict connect connection connections constraint contain contains " +
  "content contents context continue control conversation convert cost could count create created credit credits " +
  "current currently custom cuda daily data date day days debug decode decoded decoder decommissioned decoding deepseek " +
  "default defined delete deleted delta denied deny deployment deprecated description detail details detected " +
  "developer did different dimension dimensions direct disabled discriminator document does download draft duplicate " +
  "duration during each effort either element else embed embedding embeddings empty enable enabled encode encoded " +
  "encoding end ended endpoint endpoints engine enough ensure entity entry enum environment equal error errors " +
  "evaluation event exact example exceed exceeded exceeds exception exceptions exhausted exist existing exists expect " +
  "expected expired explicit extra fail failed failure fallback fallbacks false feature features field fields file " +
  "files filter filtered final find finish finished first fix flag flagged float following forbidden form format " +
  "formatted found free from full function functions gateway generate generated generation generator get given global " +
  "got grammar greater group groups guard guardrail guardrails half handle has have header headers high host hour " +
  "hours http id identifier if ignored image images implemented in include included including index inference info " +
  "information input inputs instead instruct instructions integer internal interval into invalid is issue it item " +
  "items its job json keep key keys keyword kind known language large last later latest layer least left length less " +
  "level levels library limit limited limits line lines link list lists literal load loaded loading local logit " +
  "logprobs long longer loop low lower main maintenance make malformed many mapping mask match matching max maximum may " +
  "mean means media medium member memory message messages metadata method methods middle min minimum minute minutes " +
  "mismatch missing mode model models moderation modify month more most multimodal multiple must name named names " +
  "need needs negative network new next no node none not nothing null number numbers object objects of off offset on " +
  "once one only open operation option optional options or order original other out output outputs over overloaded " +
  "own padding page parallel param parameter parameters parse parsed parser parsing part parts pass passed path paths " +
  "pattern pay payload payment penalty per percent permission permissions permitted picture plan please point policy " +
  "pool position positive possible post potential prediction prefill prefix preset presence previous private probability " +
  "problem process processing production prompt prompts properties property protocol provide provided provider " +
  "providers proxy purpose push queue quota range rate raw reach reached read ready reason reasoning receive received " +
  "recognized record reduce reference refers refresh refusal refused region register regular reject rejected release " +
  "remaining remote remove removed repetition replace reply request requested requests require required requires reset " +
  "resource resources respond response responses restricted result results retry return returned review right role " +
  "roles router routing row run running runtime safe safety same sample sampling schema schemas scheme scope second " +
  "seconds section seed see segment select selected send sent sentence sequence sequences server servers service " +
  "services session set sets setting settings several shape short should single size skip slow small smaller some " +
  "source speech start started state statement status step still stop stopped store stored stream streamed streaming " +
  "strict string strings structure structured style subset success such suffix suggested support supported supports " +
  "system table tag target task tasks temperature template temporarily temporary tensor text texts than that the then " +
  "there these they this those thought thoughts threshold tier time timed timeout timeouts times to together token " +
  "tokenizer tokens too tool tools top total traceback training trace transformers translate triggered true truncate " +
  "truncated truncation try turn turns two type types unable unauthorized unavailable undefined unexpected unique unit " +
  "unknown unprocessable unrecognized unset unsupported until update upgrade upload uploaded upper upstream usage use " +
  "used user uses using valid validate validation value values variable vector verbosity verified version versions very " +
  "video view violated violation violations vision visit vocabulary voice wait warning was way web week were what when " +
  "where whether which while who why width will window windows with within without word words work worker would write " +
  "wrong year yes yet you your zero api afford argmax array balance billing bool byte calling char correct dict " +
  "encountered forward hit identical incorrect increase insufficient int iterator malloc my need object operator params " +
  "payload pricing principal demand dev drop dropped quotas resulted runner sorry str system sum tpm rpm undefined validator variant";

/** Products and libraries that errors name: their existence is public. */
const PRODUCTS =
  "ai aiohttp anthropic asyncio aws azure bedrock bun cerebras claude cloudflare cohere cohereai cuda deepinfra " +
  "deepseek fastapi fireworks gemini google gpt groq grok httpcore httpx hugging huggingface face javascript json " +
  "litellm llama llamacpp lmdeploy lmstudio mistral mistralai moonshot node nvidia ollama open openai openrouter " +
  "perplexity pydantic python pytorch qwen requests replicate sambanova sglang tgi together torch transformers triton " +
  "uvicorn vertex vertexai vllm voyage xai xgrammar outlines jinja2";

export const ERROR_WORDS: ReadonlySet<string> = new Set(`${WORDS} ${PRODUCTS}`.split(" "));
const MODULES: ReadonlySet<string> = new Set(
  `${PRODUCTS} exceptions errors error builtins core json`.split(" "),
);

const IDENTIFIER = /^_{0,2}[A-Za-z]+(?:_[A-Za-z]+)*$/;
const CAMEL_PART = /[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g;
const IDENTIFIER_CHARS_MAX = 60;

/**
 * `context_length_exceeded`, `ContextWindowExceededError`, `litellm.BadRequestError`: identifiers made only of known
 * words.
 */
export function isKnownIdentifier(word: string): boolean {
  if (word.length > IDENTIFIER_CHARS_MAX) return false;
  const modules = word.split(".");
  const name = modules.pop() ?? "";
  if (!IDENTIFIER.test(name) || !modules.every((module) => MODULES.has(module.toLowerCase()))) return false;
  const parts = name.match(CAMEL_PART) ?? [];
  // A single word is an identifier only with a module: `openai.Timeout`.
  if (parts.length < 2 && (modules.length === 0 || !/^[A-Z]/.test(name))) return false;
  return parts.every(isKnownPart);
}

/** Plurals of known words are known. */
function isKnownPart(part: string): boolean {
  const plain = part.toLowerCase();
  return ERROR_WORDS.has(plain) || ERROR_WORDS.has(plain.replace(/s$/, ""));
}

/** Whether the word is the class name of an exception: a sentence follows it. */
export function isExceptionName(word: string): boolean {
  return (
    /(?:Error|Exception|Timeout|Failure)$/.test(word) &&
    (isKnownIdentifier(word) || ERROR_WORDS.has(word.toLowerCase()))
  );
}

const TWO_WORDS = /^([A-Za-z]+)\/([A-Za-z]+)$/;
const FLAG = /^--?[a-z]+(?:-[a-z]+)*$/;

/** `API/Operation`, `--enable-auto-tool-choice`. */
export function isJoinedWords(word: string): boolean {
  const two = TWO_WORDS.exec(word);
  if (two !== null) return two.slice(1).every(isKnownPart);
  return FLAG.test(word) && word.split("-").every((part) => part === "" || isKnownPart(part));
}
