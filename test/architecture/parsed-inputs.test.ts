/** Each file that parses a whole document, with the bound of what it parses: parsing megabytes holds the event loop. */

import { expect, test } from "bun:test";
import { relative } from "node:path";
import { readSources, SRC } from "./source-graph.ts";

const CALL =
  /\bJSON\.parse\(|\b(?:parseJson|parseBody|parseLossless|tryParseLossless|parseDocument|parseYaml)\(|\.json\(\)/;

/** Commands run in processes of their own. */
const COMMANDS = /^cli\//;

const THREAD = "longer bodies are translated in a thread, and parsedValuesMax bounds the values";
const STRING = "one string or name of a document";
const EVENT = "the bounds of an event (count-limits.ts), or an event without its long strings";
const SETTING = "a setting or state that the gateway has written itself, from a body of the console API";
const OWN_COOKIE = "a cookie that the gateway has sealed";
const PROCESS = "another process of this installation";
const RESPONSE = "a response that is read up to a bound in bytes";

const BOUNDS: Readonly<Record<string, string>> = {
  "accounts/cloud/access-tokens.ts": RESPONSE,
  "accounts/model-names.ts": RESPONSE,
  "accounts/websocket/upstream-turn.ts": "the bytes of an error of an upstream",
  "billing/engine/json-lines.ts": "one line of the journal of this process",
  "capture/sealed-content.ts": "a stored capture: capture.body_kib",
  "composition/console-api.ts": PROCESS,
  "composition/server.ts": PROCESS,
  "config/first-run/admin-claim.ts": "a file of the installation",
  "config/parse/substitute-variables.ts": "called by a command",
  "config/parse/yaml-tree.ts": "1,000 characters; longer files are read in a thread",
  "config/plan/plan-tool-sign-in.ts": "toolSignIn.managedSettingsBytesMax",
  "console-api/auth/confirmation.ts": OWN_COOKIE,
  "console-api/handler.ts": "the bytes of each route, and apiValuesMax or apiBulkValuesMax",
  "console-api/http/page.ts": "a parameter of 500 characters",
  "console-api/sign-in/flow.ts": OWN_COOKIE,
  "console-api/sign-in/pending-link.ts": OWN_COOKIE,
  "console-api/usage/timeline.ts": "the attempts of one request",
  "gateway/endpoints/count-tokens.ts": RESPONSE,
  "gateway/endpoints/request-report.ts": "the attempts of one request",
  "gateway/metering/count-request.ts":
    "tokenCountThread.inlineBytesMax; the bounds of an event for responses",
  "gateway/metering/pending-text.ts": STRING,
  "gateway/stored-responses/input-items.ts": THREAD,
  "gateway/stored-responses/stored-turn.ts": THREAD,
  "gateway/translation/state-seals.ts": "one sealed value of a request or response",
  "gateway/translation/translate-embeddings.ts": THREAD,
  "gateway/translation/translate-request.ts": THREAD,
  "gateway/translation/translate-response.ts": THREAD,
  "gateway/translation/translation-jobs.ts": "translationThreads.repeatedCharsMax",
  "gateway/upstream/upstream-failure.ts": "upstreamErrorBytesMax",
  "json/lossless.ts": "the function",
  "json/members.ts": STRING,
  "json/name.ts": STRING,
  "json/parse-body.ts": "the function",
  "json/parse.ts": "the function",
  "json/scan.ts": STRING,
  "limits/coordinator/flat-call.ts": PROCESS,
  "money/tariff.ts": "the terms of one price",
  "openid/document-bounds.ts": "the values of a document of a provider, counted before",
  "protocols/chat/chat-chunk.ts": EVENT,
  "protocols/chat/chat-stream.ts": EVENT,
  "protocols/embeddings/embeddings-response.ts": "one vector",
  "protocols/embeddings/vectors.ts": "one vector",
  "protocols/hub/call-input.ts": "the arguments of one call",
  "protocols/hub/custom-input.ts": "the arguments of one call",
  "protocols/hub/json-values.ts": "the arguments of one call",
  "protocols/shared/event-bounds.ts": EVENT,
  "protocols/shared/long-strings.ts": EVENT,
  "protocols/whole-response.ts": EVENT,
  "responses-websocket/client-frame.ts": "STEER_INPUT_BYTES_MAX",
  "responses-websocket/echoed-settings.ts": "the bytes of all repeated settings",
  "scim/filter.ts": "scim.filterCharsMax",
  "secrets/service-account.ts": SETTING,
  "server/operator-socket.ts": "a command of the operator on this machine",
  "store/engine/copy-store.ts": "called by a command",
  "store/engine/folder-lock.ts": "a file of the installation",
  "store/engine/row.ts": SETTING,
  "store/policy/request-policies.ts": SETTING,
  "store/settings/settings.ts": SETTING,
  "telemetry/otlp-client.ts": RESPONSE,
};

test("only listed files parse documents: each has a bound of its input", () => {
  const parsing = readSources("src")
    .filter(({ isTest }) => !isTest)
    .map(({ path, text }) => ({ file: relative(SRC, path), text }))
    .filter(({ file, text }) => !COMMANDS.test(file) && CALL.test(text));
  expect(parsing.map(({ file }) => file).sort()).toEqual(Object.keys(BOUNDS).sort());
});
