/** Paths and bodies of Amazon Bedrock and Google Vertex AI. */

import { expect, test } from "bun:test";
import { joinParts } from "../../base/parts.ts";
import { account } from "../../pool/pool.test-support.ts";
import { ENDPOINTS } from "../../protocols/endpoints.ts";
import { readJsonRequest } from "../../protocols/shared/json-request.ts";
import type { Interface } from "../../records/interfaces.ts";
import type { PolicyAccount } from "../account.ts";
import { toHostedBody } from "../cloud/hosted-body.ts";
import type { PathTarget } from "./kind-definition.ts";
import { credentialHeader, KINDS } from "./table.ts";

const bedrock = account("b", { kind: "bedrock", basePath: "", region: "us-east-1" });
const vertex = account("v", { kind: "vertex", basePath: "", region: "us-east5", project: "my-project" });
const hostedForm = ({ kind }: PolicyAccount, iface: Interface, betas: readonly string[] = []) =>
  KINDS[kind].hosting?.form(iface, betas) ?? null;
const hostedPath = (hosted: PolicyAccount, target: PathTarget) => KINDS[hosted.kind].path(hosted, target);
const messages = ENDPOINTS.find(({ name }) => name === "messages");

test.each([
  ["anthropic.claude-v1:0", "/model/anthropic.claude-v1%3A0/invoke"],
  [
    "arn:aws:bedrock:us-east-1:1:inference-profile/x",
    "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx/invoke",
  ],
  ["../../admin?x#y", "/model/..%2F..%2Fadmin%3Fx%23y/invoke"],
])("the model %s is one segment of the path", (upstreamModel, path) => {
  expect(hostedPath(bedrock, { path: "/messages", upstreamModel, wantsEvents: false })).toBe(path);
});

test("the project of the configuration takes precedence, and a base URL may have the version", () => {
  const target = { path: "/messages", upstreamModel: "claude-x@2", wantsEvents: true };
  const path =
    "/v1/projects/my-project/locations/us-east5/publishers/anthropic/models/claude-x@2:streamRawPredict";
  expect(hostedPath(vertex, target)).toBe(path);
  expect(hostedPath({ ...vertex, basePath: "/proxy/v1" }, target)).toBe(`/proxy${path}`);
  expect(hostedPath({ ...vertex, region: null }, target)).toContain("/locations/global/");
});

test("the key of a service account is not sent in a header", () => {
  expect(credentialHeader({ ...vertex, credential: '{"private_key":"x"}' })).toBeNull();
  expect(credentialHeader({ ...bedrock, credential: "key" })).toEqual(["authorization", "Bearer key"]);
});

/** Members around those that are removed, in every order, with and without spaces. */
const BODIES = [
  '{"model":"m","stream":true,"messages":[{"role":"user","content":"model stream"}],"max_tokens":5}',
  '{ "messages" : [{"role":"user","content":"x"}] , "max_tokens" : 5 , "stream" : true , "model" : "m" }',
  '{"max_tokens":5,"model":"m","messages":[{"role":"user","content":"x"}],"stream":false}',
  '{"anthropic_version":"x","messages":[{"role":"user","content":"x"}],"model":"m","anthropic_beta":["y"],"max_tokens":5}',
];

test.each(BODIES)("the body %s is valid JSON with the members of the vendor", (text) => {
  if (messages === undefined) throw new Error("no endpoint");
  const bytes = Buffer.from(text);
  const limits = { depthMax: 32, modelNameCharsMax: 64 };
  const request = readJsonRequest({ bytes, start: 0, end: bytes.length }, messages, limits);
  const { model: _m, stream, anthropic_beta: _b, ...rest } = JSON.parse(text);
  const read = (parts: unknown) => JSON.parse(new TextDecoder().decode(joinParts(parts as never)));
  const form = hostedForm(bedrock, "messages", ["flag"]);
  expect(read(request.body.forUpstream("up", form))).toEqual({
    ...rest,
    anthropic_version: "bedrock-2023-05-31",
    anthropic_beta: ["flag"],
  });
  const vertexForm = hostedForm(vertex, "messages", ["flag"]);
  expect(read(request.body.withOutputCap(3).forUpstream("up", vertexForm))).toEqual({
    ...rest,
    max_tokens: 3,
    ...(stream === undefined ? {} : { stream }),
    anthropic_version: "vertex-2023-10-16",
  });
});

test("a body that the gateway writes has the same form", () => {
  const body = { model: "m", stream: true, messages: [] };
  expect(toHostedBody(hostedForm(bedrock, "messages"), body)).toEqual({
    anthropic_version: "bedrock-2023-05-31",
    messages: [],
  });
  expect(toHostedBody(hostedForm(vertex, "messages"), body)).toEqual({
    anthropic_version: "vertex-2023-10-16",
    messages: [],
    stream: true,
  });
  expect(toHostedBody(hostedForm(vertex, "gemini"), { contents: [] })).toEqual({ contents: [] });
  expect(toHostedBody(hostedForm(account("a", { kind: "anthropic" }), "messages"), body)).toBe(body);
});
