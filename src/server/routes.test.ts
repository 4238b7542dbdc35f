import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ApiError } from "../errors.ts";
import { ENDPOINTS } from "../protocols/endpoints.ts";
import { publicPath } from "../protocols/shared/endpoint.ts";
import { findDestination } from "./routes.ts";
import { UnknownUrl } from "./unknown-url.ts";

function rejection(method: string, path: string): ApiError {
  try {
    findDestination(method, path);
  } catch (thrown) {
    if (thrown instanceof ApiError) return thrown;
    throw thrown;
  }
  throw new Error(`${method} ${path} was found`);
}

describe("routing", () => {
  test.each(ENDPOINTS.filter(({ api }) => !api.hasModelInPath).map((one) => [one.path, one] as const))(
    "POST /v1%s is a model request",
    (path, endpoint) => {
      expect(findDestination("POST", `/v1${path}`)).toEqual({ kind: "model_call", endpoint });
    },
  );

  describe.each(ENDPOINTS.filter(({ api }) => api.hasModelInPath))(
    "POST /v1beta$path is a model request",
    (endpoint) => {
      test.each(["gemini-2.5-pro", "org/model", "llama3:8b"])("with the model %s in its path", (model) => {
        const path = endpoint.path.replace("{model}", model);
        for (const version of ["v1beta", "v1alpha", "v1"])
          expect(findDestination("POST", `/${version}${path}`)).toEqual({
            kind: endpoint.name === "gemini.count_tokens" ? "count_tokens" : "model_call",
            endpoint: { ...endpoint, model },
          });
      });
    },
  );

  test("finds models, usage, health, readiness and the Responses WebSocket", () => {
    expect(findDestination("GET", "/v1/models")).toEqual({ kind: "models" });
    expect(findDestination("GET", "/v1/usage")).toEqual({ kind: "usage" });
    expect(findDestination("GET", "/healthz")).toEqual({ kind: "health" });
    expect(findDestination("HEAD", "/healthz")).toEqual({ kind: "health" });
    expect(findDestination("GET", "/readyz")).toEqual({ kind: "readiness" });
    expect(findDestination("GET", "/v1/responses")).toEqual({ kind: "responses_socket" });
  });

  test("finds the console and the docs, and redirects to them", () => {
    expect(findDestination("GET", "/")).toEqual({ kind: "moved", to: "/console/" });
    expect(findDestination("GET", "/console")).toEqual({ kind: "moved", to: "/console/" });
    expect(findDestination("GET", "/console/")).toEqual({ kind: "site", site: "console" });
    expect(findDestination("HEAD", "/console/keys/key_1")).toEqual({ kind: "site", site: "console" });
    expect(findDestination("GET", "/docs")).toEqual({ kind: "moved", to: "/docs/" });
    expect(findDestination("GET", "/docs/errors")).toEqual({ kind: "site", site: "docs" });
    expect(rejection("POST", "/console/").headers).toEqual({ allow: "GET, HEAD" });
    expect(findDestination("PATCH", "/api/keys/key_1")).toEqual({ kind: "api" });
  });

  test("a model id is the whole rest of the path, including slashes and percent escapes", () => {
    expect(findDestination("GET", "/v1/models/fast")).toEqual({ kind: "model", id: "fast" });
    expect(findDestination("GET", "/v1/models/org/fast:v1")).toEqual({ kind: "model", id: "org/fast:v1" });
    expect(findDestination("GET", "/v1/models/org%2Ffast")).toEqual({ kind: "model", id: "org/fast" });
    expect(findDestination("GET", "/v1/models/caf%C3%A9%20100%25")).toEqual({
      kind: "model",
      id: "caf\u00e9 100%",
    });
  });

  test("any id can be part of a path", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 1 }), (id) => {
        fc.pre(id.isWellFormed());
        expect(findDestination("GET", `/v1/models/${encodeURIComponent(id)}`)).toEqual({ kind: "model", id });
        expect(findDestination("DELETE", `/v1/responses/${encodeURIComponent(id)}`)).toEqual({
          kind: "stored_response",
          responseId: id,
          action: "",
        });
      }),
    );
  });

  test("a stored response can be retrieved, deleted, cancelled, and its input items listed", () => {
    const call = { kind: "stored_response", responseId: "resp_1" } as const;
    expect(findDestination("GET", "/v1/responses/resp_1")).toEqual({ ...call, action: "" });
    expect(findDestination("DELETE", "/v1/responses/resp_1")).toEqual({ ...call, action: "" });
    expect(findDestination("POST", "/v1/responses/resp_1/cancel")).toEqual({ ...call, action: "/cancel" });
    expect(findDestination("GET", "/v1/responses/resp_1/input_items")).toEqual({
      ...call,
      action: "/input_items",
    });
  });

  test("a fixed path below /v1/responses is never a response id", () => {
    expect(rejection("GET", "/v1/responses/compact").code).toBe("method_not_allowed");
    expect(rejection("DELETE", "/v1/responses/input_tokens").code).toBe("method_not_allowed");
  });
});

describe("a wrong method", () => {
  test.each([
    ["GET", "/v1/chat/completions", "POST"],
    ["DELETE", "/v1/responses", "POST, GET"],
    ["POST", "/v1/models", "GET"],
    ["POST", "/v1/models/fast", "GET"],
    ["PUT", "/v1/responses/resp_1", "GET, DELETE"],
    ["GET", "/v1/responses/resp_1/cancel", "POST"],
    ["POST", "/healthz", "GET, HEAD"],
    ["constructor", "/v1/models", "GET"],
  ])("%s %s is rejected with Allow: %s", (method, path, allow) => {
    expect(rejection(method, path)).toMatchObject({
      status: 405,
      code: "method_not_allowed",
      headers: { allow },
    });
  });
});

describe("an unknown path", () => {
  test.each([
    ["/v1/v1/models", "/v1/models"],
    ["/v1/v1/v1/chat/completions", "/v1/chat/completions"],
    ["/chat/completions", "/v1/chat/completions"],
    ["/models", "/v1/models"],
    ["/models/org/fast", "/v1/models/org/fast"],
    ["/v1/chat/completions/", "/v1/chat/completions"],
    ["//v1//embeddings", "/v1/embeddings"],
    ["/v1/models/", "/v1/models"],
    ["/v1/responses/", "/v1/responses"],
    ["/responses/resp_1/cancel", "/v1/responses/resp_1/cancel"],
  ])("%s suggests %s", (path, meant) => {
    const error = rejection("POST", path);
    expect(error).toMatchObject({ status: 404, code: "unknown_url" });
    expect(error.message).toContain(`Did you mean ${meant}?`);
  });

  test.each(["/v1", "/v1/", "/v2/models", "/v1/audio/speech", "/v1/responses/a/b"])(
    "%s suggests the first request to make",
    (path) => {
      const error = rejection("GET", path);
      expect(error).toMatchObject({ status: 404, code: "unknown_url" });
      expect(error.message).toContain("GET /v1/models is a good first call");
    },
  );

  test.each(["/v1/models/", "/v1/chat/completions/", "/v1/responses/"])(
    "%s suggests the path without the trailing slash",
    (path) => {
      const meant = path.slice(0, -1);
      expect(rejection("POST", path).message).toBe(
        `The path ${path} does not exist. Did you mean ${meant}? Remove the trailing slash.`,
      );
    },
  );

  test("suggests the gateway's own base URL, never a placeholder", () => {
    const error = rejection("GET", "/v1/v1/models");
    expect(error.message).not.toContain("{");
    if (!(error instanceof UnknownUrl)) throw error;
    expect(error.withBaseUrl("https://gateway.example.com").message).toBe(
      "The path /v1/v1/models does not exist. Did you mean /v1/models? The path must have /v1 exactly once. Use https://gateway.example.com/v1 as the base URL of SDKs, and https://gateway.example.com for clients that need a host.",
    );
  });

  test.each([
    ["/v1/files", "the Files API"],
    ["/v1/files/file-abc/content", "the Files API"],
    ["/v1/audio/speech", "the Audio API (speech, transcriptions, translations)"],
    ["/v1/audio/transcriptions", "the Audio API (speech, transcriptions, translations)"],
    ["/v1/completions", "the legacy Completions API"],
    ["/completions", "the legacy Completions API"],
    ["/v1/v1/completions", "the legacy Completions API"],
    ["/v1/moderations", "the Moderations API"],
    ["/v1/batches", "the Batch API"],
    ["/v1/batches/batch_1/cancel", "the Batch API"],
    ["/v1/messages/batches", "the Anthropic Message Batches API"],
    ["/v1beta/cachedContents", "this part of the Gemini API"],
    ["/v1/models/gemini-pro:predict", "this part of the Gemini API"],
    ["/v1beta/openai/chat/completions", "this part of the Gemini API"],
    ["/v1/images/variations", "image variations"],
    ["/v1/realtime/sessions", "the Realtime API"],
    ["/v1/assistants", "the Assistants API"],
  ])("%s gets the error that this gateway does not support %s", (path, name) => {
    const error = rejection("POST", path);
    expect(error).toMatchObject({ status: 404, code: "unknown_url" });
    expect(error.message).toBe(
      `The path ${path} does not exist. This gateway does not support ${name}. It supports ${ENDPOINTS.map((one) => `POST ${publicPath(one)}`).join(", ")} and GET /v1/models; GET /v1/models is a good first call.`,
    );
  });

  test("with an invalid percent escape is unknown", () => {
    expect(rejection("GET", "/v1/models/%zz").code).toBe("unknown_url");
    expect(rejection("GET", "/v1/responses/%zz").code).toBe("unknown_url");
  });

  test("that is long is quoted only in part", () => {
    expect(rejection("GET", `/${"x".repeat(5_000)}`).message.length).toBeLessThan(400);
  });

  test("fails as unknown or not allowed, and never in another way", () => {
    const part = fc.constantFrom(
      "/",
      "v1",
      "models",
      "responses",
      "cancel",
      "%2e",
      "..",
      "%",
      "chat",
      "completions",
    );
    fc.assert(
      fc.property(fc.array(part), fc.constantFrom("GET", "POST", "PATCH"), (parts, method) => {
        try {
          findDestination(method, `/${parts.join("")}`);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(ApiError);
        }
      }),
    );
  });
});
