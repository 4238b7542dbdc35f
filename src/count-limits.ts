/**
 * How often something may repeat within one request or one upstream response. `config/limits/product-limits.ts` includes this
 * table; it is a file of its own because `protocols/`, which may not import `config/`, applies most of its values.
 * Code that reads input is linear in what these counts allow.
 */

/** Nesting depth of a JSON body. Deeper nesting is an attack on recursive parsers. */
export const JSON_DEPTH_MAX = 128;

/** Above one of these a request is rejected with 400, before anything is built from it. */
export const requestCounts = {
  /** Elements of `input`, `messages` or `contents`. The longest sessions of agents have a few thousand. */
  itemsMax: 16_384,
  /** Parts of one message. */
  partsMax: 16_384,
  /** Texts or tokens of an embeddings request. Upstreams accept 2,048 texts; a text may be sent as tokens. */
  embeddingInputsMax: 65_536,
  /** Tools, and the functions of one namespace or Gemini declaration. Vendors accept 128 to 512. */
  toolsMax: 8_192,
  /** Names in a list of allowed tools. */
  allowedToolsMax: 8_192,
  /** The name of a namespace, which becomes a part of the name of each of its tools. */
  namespaceCharsMax: 256,
  /** Values of one tool's schema: its objects, arrays and their members. */
  schemaNodesMax: 32_768,
  /** Alternatives (`anyOf`, `oneOf`, `allOf`) at the top level of a tool's schema. */
  schemaBranchesMax: 1_024,
  /** Values of a body that is parsed whole because it is translated: members, elements and the containers themselves. */
  parsedValuesMax: 262_144,
} as const;

/** What is believed of one usage report. Above these the counts are reduced, or the hold is charged instead. */
export const usageLimits = {
  /** Context windows that one request may read if the upstream runs tools for it: one in each round. */
  toolRoundsMax: 32,
  /** Tokens, if the window of the model is not known: several times the windows of the largest models. */
  inputTokensMax: 50_000_000,
  outputTokensMax: 5_000_000,
  /** Searches of the web, if the request itself sets no limit. */
  webSearchesMax: 1_000,
  /** One charge is at most its hold and this much. The rest is an alert for the operator. */
  chargeAboveHoldNano: 10_000_000_000n,
} as const;

/**
 * Above one of these an upstream's response is ended as `upstream_error`. Before its first content another account is
 * tried; the account is not blamed, because a client can make a model produce as much.
 */
export const responseBounds = {
  /** Calls of tools. Vendors accept at most 128 tools, and models rarely call more than ten at once. */
  callsMax: 256,
  /** Items that have begun and not ended. */
  openItemsMax: 256,
  /** Texts, reasoning, calls and searches together, and the parts of a message. */
  itemsMax: 4_096,
  /** Elements of one list: parts, annotations, calls, output items. */
  listMax: 16_384,
  /** Choices or candidates. Vendors accept at most 128. */
  choicesMax: 128,
  citationsMax: 1_000,
  /** Addresses and titles of all citations. Clients receive them several times. */
  citationCharsMax: 1_048_576,
  searchesMax: 1_000,
  /** Addresses that all searches found. */
  searchAddressesMax: 10_000,
  /** Text, calls and state together: what is kept of one response. About a million tokens. */
  textCharsMax: 4 * 1_048_576,
  /** All events of a stream. They are many times as long as its text. */
  streamBytesMax: 256 * 1_048_576,
  /** Text of one item in one event. */
  eventTextCharsMax: 1_048_576,
  /** Lines of one event: most have two. */
  eventLinesMax: 16_384,
  /**
   * Headers of one frame of Amazon Bedrock: real ones have three. No client causes more, so the response is malformed
   * then.
   */
  frameHeadersMax: 64,
  /** JSON values of one event: parsing more holds the event loop. */
  eventValuesMax: 65_536,
  /**
   * Bytes of one event without its long plain strings, such as images. Responses repeat the instructions of a request,
   * which may be half a million tokens long.
   */
  eventParsedBytesMax: 2 * 1_048_576,
  /** JSON values of one event that is only scanned: a response of 6,000 tokens with 20 log probabilities each. */
  scannedEventValuesMax: 1_048_576,
  /** Its bytes without long plain strings: instructions of a million tokens. */
  scannedEventBytesMax: 4 * 1_048_576,
} as const;
