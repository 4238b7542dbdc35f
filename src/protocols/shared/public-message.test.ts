import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { publicMessage } from "./public-message.ts";
import type { Audience } from "./upstream-error.ts";

const sentBy = (request: string, change: Partial<Audience> = {}): Audience => ({
  publicModel: "fast",
  upstreamModel: "gpt-6-eu-0419",
  account: null,
  mentions: (word) => request.includes(word),
  ...change,
});

describe("readable messages", () => {
  /** An upstream message, and the words in it that the client sent. */
  const KEPT: readonly [message: string, request: string][] = [
    [
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130512 tokens. Please reduce the length of the messages.",
      "",
    ],
    ["Your input exceeds the context window of this model. Please adjust your input and try again.", ""],
    [
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      "",
    ],
    [
      "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is supported.",
      "",
    ],
    [
      "Invalid value: 'bot42'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
      '{"role":"bot42"}',
    ],
    ["Missing required parameter: 'messages[0].content'.", ""],
    ["'$.input' is invalid. Please check the API reference.", ""],
    ["'$.messages[0].content' is invalid.", ""],
    [
      "Invalid type for 'messages[0].content': expected one of a string or array of objects, but got an integer instead.",
      "",
    ],
    [
      "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
      "",
    ],
    ["Unknown parameter: 'foo_bar2'.", '{"foo_bar2":1}'],
    [
      "Invalid schema for response_format 'math_v2': 'additionalProperties' is required to be supplied and to be false.",
      '{"name":"math_v2"}',
    ],
    [
      "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_9f3aB1",
      '{"id":"call_9f3aB1"}',
    ],
    ["No tool output found for function call call_9f3aB1.", '{"call_id":"call_9f3aB1"}'],
    [
      "Invalid image URL: 'messages[0].content[1].image_url.url'. Expected a base64-encoded data URL with an image MIME type.",
      "",
    ],
    [
      "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
      "",
    ],
    ["Previous response with id 'resp_68ab12' not found.", '{"previous_response_id":"resp_68ab12"}'],
    ["Invalid 'input[0]': input cannot be an empty string.", ""],
    [
      "max_tokens is too large: 200,000. This model supports at most 16,384 completion tokens, whereas you provided 200,000.",
      "",
    ],
    ["Invalid value: '10x10'. Supported values are: '1024x1024', '1024x1536', '1536x1024', and 'auto'.", ""],
    [
      "Your request was rejected as a result of our safety system. Your prompt may contain text that is not allowed by our safety system.",
      "",
    ],
    ["The encrypted content for item rs_0a1b2c could not be verified.", '{"id":"rs_0a1b2c"}'],
    [
      "Item 'rs_0a1b2c' of type 'reasoning' was provided without its required following item.",
      '{"id":"rs_0a1b2c"}',
    ],
    [
      "We could not parse the JSON body of your request. The request was not valid JSON (e.g. a trailing comma).",
      "",
    ],
    ["Invalid type for 'metadata.my_field': expected a string.", '{"metadata":{"my_field":1}}'],
    ["Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64.", ""],
    ["Reasoning is 87.5% done; you've used 3 of 5 calls!", ""],
  ];

  test.each(KEPT)("%s", (message, request) => {
    expect(publicMessage(message, sentBy(request))).toBe(message);
  });

  test("the upstream model is replaced by the public model", () => {
    const message = "The model `gpt-6-eu-0419` does not exist (asked for gpt-6-eu-0419).";
    expect(publicMessage(message, sentBy(""))).toBe("The model `fast` does not exist (asked for fast).");
  });

  test("a public model with special characters is inserted literally", () => {
    const audience = sentBy("", { publicModel: "$&-$1" });
    expect(publicMessage("No model gpt-6-eu-0419 here", audience)).toBe("No model $&-$1 here");
  });

  test("removed words leave a marker, one for a run of words", () => {
    expect(publicMessage("Key sk-abc123 of org-x9 'acct_7' failed", sentBy(""))).toBe(
      "Key [redacted] of [redacted] '[redacted]' failed",
    );
    expect(publicMessage("at 10.0.0.7:443 10.0.0.8:443 now", sentBy(""))).toBe("at [redacted] now");
  });

  test("a long message is cut between words", () => {
    const shown = publicMessage(`${"word ".repeat(199)}unspeakable`, sentBy(""));
    expect(shown).toBe("word ".repeat(199).trim());
  });
});

describe("real messages are unchanged", () => {
  const FILTERED =
    "To learn more about our content filtering policies please read our documentation: https://go.microsoft.com/fwlink/?linkid=2198766";
  test.each([
    // OpenAI
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt: https://platform.openai.com/docs/guides/reasoning#advice-on-prompting",
    "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].",
    "Unsupported value: 'reasoning.effort' does not support 'minimal' with this model. Supported values are: 'none', 'low', 'medium', 'high', and 'xhigh'.",
    "Could not finish the message because max_tokens or model output limit was reached. Please try again with higher max_tokens.",
    "Invalid 'messages[1].role': did not expect one of 'tool'. Only the Chat Completions API takes it; the Responses API does not.",
    "We're currently processing too many requests of this user. The user must wait.",
    "Conversation already has an active response in progress: wait until the response is finished before creating a new one.",
    "Your organization must be verified to stream this model. Please go to: https://platform.openai.com/docs/models and click on Verify Organization. If you just verified, it can take up to 15 minutes for access to propagate.",
    "Function tools with reasoning_effort are not supported in Chat Completions. Please use the Responses API instead.",
    // Azure
    `The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry. ${FILTERED}`,
    "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again.",
    "The chatCompletion operation does not work with the specified model. Please choose different model and try again.",
    "This feature is enabled only for API versions 2025-03-01-preview and later.",
    "Unrecognized request argument supplied: reasoning_effort",
    // vLLM
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (904 in the messages, 4096 in the completion). Please reduce the length of the messages or completion.",
    "max_tokens must be at least 1, got 0.",
    "As of transformers, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one.",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that max_model_len is no smaller than the number of text tokens.",
    "Conversation roles must alternate user and assistant turns.",
    // Ollama
    'invalid format: expected "json" or a JSON schema',
    "input length exceeds maximum context length",
    "this model is missing data required for image input",
  ])("%s", (message) => {
    const account = { name: "main", credential: "sk-proj-Ab3x", baseUrl: "https://api.openai.com/v1" };
    expect(publicMessage(message, sentBy("", { account }))).toBe(message);
  });

  test.each([
    ["maximum context length of 'um' is 4096", "maximum context length of 'fast' is 4096"],
    ["the model um is not multimodal, um", "the model fast is not multimodal, um"],
    ["registry.ollama.ai/library/um does not support tools", "fast does not support tools"],
  ])("an upstream model of plain letters is replaced where it is a name: %s", (message, told) => {
    expect(publicMessage(message, sentBy("", { upstreamModel: "um" }))).toBe(told);
  });

  test("an upstream model is not replaced within other words", () => {
    const message = "This operation is not supported by the chat completions endpoint of chatty models.";
    expect(publicMessage(message, sentBy("", { upstreamModel: "chat" }))).toBe(message);
  });
});

describe("names of the account are redacted", () => {
  const account = {
    name: "acme",
    credential: "opensesame",
    baseUrl: "https://globex.openai.azure.com/teams/initech/v1",
  };
  const told = (message: string, request = "") => publicMessage(message, sentBy(request, { account }));

  test.each([
    [
      "token opensesame of Acme Corp is limited, see acme.example.com",
      "token [redacted] of [redacted] is limited, see [redacted]",
    ],
    ["the key OpenSesame's gone", "the key [redacted]'s gone"],
    ["of (globex) and initech", "of ([redacted]) and [redacted]"],
    ["see non-acme pages of Azure OpenAI", "see [redacted] pages of Azure OpenAI"],
  ])("%s", (message, shown) => {
    expect(told(message)).toBe(shown);
  });

  test("as are its project and its other upstream models", () => {
    const vertex = { ...account, project: "hooli-ml", models: { fast: "gpt-6-eu-0419", small: "opus" } };
    expect(publicMessage("hooli has no access to opus", sentBy("", { account: vertex }))).toBe(
      "[redacted] has no access to [redacted]",
    );
  });

  test("unless the client sent the name itself", () => {
    expect(told("no tool acme and no globex", '{"name":"acme"}')).toBe("no tool acme and no [redacted]");
  });

  test("but common words in the account's name are not redacted", () => {
    const plain = { name: "openai-main", credential: "key", baseUrl: "https://api.openai.com/v1" };
    const message = "Only the main API of OpenAI takes the default value.";
    expect(publicMessage(message, sentBy("", { account: plain }))).toBe(message);
    expect(publicMessage("wrong key", sentBy("", { account: plain }))).toBe("wrong [redacted]");
  });
});

describe("names are redacted", () => {
  test.each([
    ["in capital letters", "token CANARYSECRET is wrong", "token [redacted] is wrong"],
    ["within a sentence", "limits of Acme Corp are reached", "limits of [redacted] are reached"],
    ["in mixed case", "AcmeCorp is limited", "[redacted] is limited"],
    ["of an organization", "organization acme is limited", "organization [redacted] is limited"],
    ["of an organization in quotes", "for organization 'acme', in", "for organization '[redacted]', in"],
    ["after a colon", "Project: globex", "Project: [redacted]"],
    ["of an id", "account id 123456 was not found", "account id [redacted] was not found"],
    ["of a user", "User bob has no access", "User [redacted] has no access"],
    ["after named", "tenant named initech", "tenant named [redacted]"],
  ])("%s", (_, message, shown) => {
    expect(publicMessage(message, sentBy(""))).toBe(shown);
  });
});

describe("secrets are redacted", () => {
  const letters = "abcdefghijklmnopqrstuvwxyz";
  const alphabet = (chars: string, minLength: number, maxLength: number) =>
    fc.string({ unit: fc.constantFrom(...chars), minLength, maxLength });
  const digits = "0123456789";
  const alnum = letters + letters.toUpperCase() + digits;
  const label = alphabet(letters, 2, 10);
  const byte = fc.integer({ min: 0, max: 255 });
  const ip = fc.tuple(byte, byte, byte, byte).map((bytes) => bytes.join("."));
  const host = fc
    .tuple(label, label, fc.constantFrom("com", "net", "internal", "azure.com"))
    .map((parts) => parts.join("."));
  const secrets = fc.oneof(
    fc
      .tuple(
        fc.constantFrom("sk-", "sk-proj-", "org-", "proj_", "key-", "gwk_", "Bearer-"),
        alphabet(alnum, 16, 48),
      )
      .map((parts) => parts.join("")),
    fc.tuple(fc.constantFrom("org-", "sk-", "proj-", "key-"), label).map((parts) => parts.join("")),
    fc.uuid(),
    alphabet(`${alnum}+/`, 24, 64).map((text) => `${text}==`),
    alphabet(`${alnum}-_`, 43, 43),
    alphabet("abcdef", 24, 24).map((text) => `${text}0f`),
    alphabet(`abcdef${digits}`, 32, 64),
    alphabet(digits, 10, 20),
    host,
    host.map((name) => `https://${name}/openai/v1?key=1`),
    host.map((name) => `${name}:8443`),
    ip,
    ip.map((address) => `${address}:443`),
    ip.map((address) => `http://${address}/`),
    fc.ipV6().filter((address) => address.length > 12 && !address.endsWith("::")),
    fc.tuple(label, host).map(([user, name]) => `${user}@${name}`),
    fc.constant("CANARY-SECRET-7f3a"),
    fc.array(label, { minLength: 2, maxLength: 4 }).map((parts) => `${parts.join("_")}_${parts.length}`),
    fc.array(label, { minLength: 3, maxLength: 5 }).map((parts) => parts.join("-")),
  );
  const plain = fc.array(
    fc.constantFrom("The", "key", "of", "your", "account", "is", "not", "valid.", "(see", "docs)"),
    {
      maxLength: 300,
    },
  );
  const wrapped = fc.constantFrom<(secret: string) => string>(
    (secret) => secret,
    (secret) => `'${secret}'`,
    (secret) => `("${secret}"),`,
    (secret) => `<${secret}>.`,
    (secret) => `key=${secret}`,
    (secret) => `org:${secret}`,
    (secret) => `{"organization":"${secret}"}`,
    (secret) => `messages[0].${secret}`,
    (secret) => `${secret}\u200b`,
    (secret) => `\u00a0${secret}\u00a0`,
    (secret) => `${secret}:gpt-6-eu-0419`,
  );

  test("a secret of any format, at any position of a message, does not reach the client", () => {
    fc.assert(
      fc.property(plain, plain, secrets, wrapped, (before, after, secret, wrap) => {
        const message = [...before, wrap(secret), ...after].join(" ");
        expect(publicMessage(message, sentBy(""))).not.toContain(secret);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a message cut at its limit does not end with a part of a secret", () => {
    fc.assert(
      fc.property(fc.integer({ min: 940, max: 1_000 }), secrets, (length, secret) => {
        const filler = "a ".repeat(500).slice(0, length - (length % 2));
        const shown = publicMessage(filler + secret + " z".repeat(100), sentBy(""));
        expect(shown.replaceAll("[redacted]", "")).toMatch(/^[az ]*$/);
      }),
    );
  });

  test("every message takes linear time", () => {
    const measure = (unit: string) => {
      const message = `${unit.repeat(1_000).slice(0, 990)}!x`;
      const before = process.cpuUsage();
      for (let i = 0; i < 20; i++) publicMessage(message, sentBy(""));
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 20_000;
    };
    for (const unit of ") ( [( { a aA a_ a. a- a= a[0] 1, 's .. a: /".split(" ")) {
      // 0.01 to 0.04 ms were measured. Quadratic patterns took 1.2 to 2.4 ms.
      expect(Math.min(measure(unit), measure(unit), measure(unit)), unit).toBeLessThan(0.8);
    }
  });

  test("a word that the client sent is not a secret", () => {
    expect(publicMessage("No file file-9f3a_01.", sentBy('{"file_id":"file-9f3a_01"}'))).toBe(
      "No file file-9f3a_01.",
    );
  });
});
