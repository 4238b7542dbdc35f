/** Routes for request policies: what the requests of groups and keys may contain. */

import { z } from "zod";
import { joinParts, wholeBytesPart } from "../../base/parts.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { previewDocument } from "../../config/plan/apply.ts";
import { requestPolicyToFile } from "../../config/state/to-file-shape.ts";
import { ApiError, asApiError } from "../../errors.ts";
import { formatChanges } from "../../gateway/request-policy/apply-request-policy.ts";
import { compileRequestPolicy } from "../../policy/request-policy.ts";
import { lookUpEndpoint } from "../../protocols/endpoints.ts";
import { openChanged, readModelRequest } from "../../protocols/read-request.ts";
import { applyRules } from "../../protocols/request-policy/apply-rules.ts";
import type { EndpointName } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { DIALECTS, type Dialect } from "../../records/interfaces.ts";
import { type RequestPolicyRecord, RULES } from "../../records/request-policy.ts";
import { countPolicyUse, listRequestPolicies } from "../../store/policy/request-policies.ts";
import { changePolicy, problemObjects, problemsResponse } from "../changes/change.ts";
import type { StoreContext } from "../context.ts";
import { computeVersion, requestPolicyForm } from "../forms/policy-forms.ts";
import { fieldError } from "../http/field-error.ts";
import { namedPage } from "../http/named-page.ts";
import { buildPage, pageQuery, searchQuery } from "../http/page.ts";
import { forAdmins, forUsers } from "../http/route.ts";

const policyResponse = z.object({
  document: requestPolicyForm,
  /** Version of the document, to be sent back when it is saved. */
  version: z.string(),
  created_at: z.number(),
  /** Groups and active keys that name the policy. */
  groups: z.number(),
  keys: z.number(),
});

const changeResponse = z.object({
  rule: z.enum(RULES),
  param: z.string(),
  from: z.string().nullable(),
  to: z.string().nullable(),
});

const byName = { params: z.strictObject({ name: z.string() }) };

/** The endpoint whose requests a dialect has. The path of a Gemini request names its model. */
const ENDPOINTS: Readonly<Record<Dialect, EndpointName>> = {
  responses: "responses",
  chat: "chat.completions",
  messages: "messages",
  gemini: "gemini.generate_content",
};

export const requestPolicyRoutes = {
  "request_policies.list": forUsers({
    method: "GET",
    path: "/api/request-policies",
    summary: "List the request policies that the caller may choose for a key: administrators all of them",
    response: z.object({ data: z.array(requestPolicyForm) }),
    async run({ installation }, { actor }) {
      const policies = await listRequestPolicies(installation.db);
      const offered = policies.filter(({ selfService }) => selfService || actor.role === "admin");
      return { data: offered.map(requestPolicyToFile) };
    },
  }),
  "admin.request_policies.list": forAdmins({
    method: "GET",
    path: "/api/admin/request-policies",
    summary: "List request policies, with the groups and keys that use them",
    query: z.strictObject({ ...pageQuery, ...searchQuery }),
    response: buildPage(policyResponse),
    async run({ installation: { db } }, { query }) {
      const { page, next } = namedPage(await listRequestPolicies(db), ({ name }) => name, query);
      const use = await countPolicyUse(db);
      return { data: page.map((policy) => policyObject(policy, use.get(policy.name))), next };
    },
  }),
  "admin.request_policies.get": forAdmins({
    ...byName,
    method: "GET",
    path: "/api/admin/request-policies/:name",
    summary: "Get a request policy, in the format of gateway.yaml",
    response: policyResponse,
    run: (context, { params }) => readPolicyDetail(context, params.name),
  }),
  "admin.request_policies.create": forAdmins({
    method: "POST",
    path: "/api/admin/request-policies",
    summary: "Create a request policy",
    body: requestPolicyForm,
    response: policyResponse,
    async run(context, input) {
      await changePolicy(context, input, async ({ installation }) => {
        const policies = await listRequestPolicies(installation.db);
        if (policies.some(({ name }) => name === input.body.name)) {
          throw fieldError(
            "name",
            "conflict",
            "another request policy already has this name. Choose another name.",
          );
        }
        return { request_policies: [input.body] };
      });
      return readPolicyDetail(context, input.body.name);
    },
  }),
  "admin.request_policies.save": forAdmins({
    ...byName,
    method: "PUT",
    path: "/api/admin/request-policies/:name",
    summary: "Replace the rules of a request policy; omitted rules are removed",
    body: z.strictObject({
      document: requestPolicyForm,
      /** If omitted, the current document is replaced regardless of its version. */
      version: z.string().optional(),
    }),
    response: policyResponse,
    async run(context, input) {
      const { name } = input.params;
      const { document, version } = input.body;
      await changePolicy(context, input, async ({ installation }) => {
        const before = await findPolicy({ installation }, name);
        if (document.name !== name) {
          throw fieldError("name", "invalid_value", "the name of a request policy cannot be changed.");
        }
        if (version !== undefined && version !== computeVersion(requestPolicyToFile(before))) {
          throw new ApiError(
            "conflict",
            "This request policy was changed by another user after you opened it. Reload it and repeat your change.",
          );
        }
        return { request_policies: [document] };
      });
      return readPolicyDetail(context, name);
    },
  }),
  "admin.request_policies.delete": forAdmins({
    ...byName,
    method: "DELETE",
    path: "/api/admin/request-policies/:name",
    summary: "Delete a request policy that no group and no active key uses",
    response: z.object({ name: z.string() }),
    async run(context, input) {
      const { name } = await findPolicy(context, input.params.name);
      await changePolicy(context, input, {}, { request_policies: [name] });
      return { name };
    },
  }),
  "admin.request_policies.preview": forAdmins({
    method: "POST",
    path: "/api/admin/request-policy-preview",
    summary: "Preview what a request policy, saved or not, would do to a request",
    body: z.strictObject({
      document: requestPolicyForm,
      interface: z.enum(DIALECTS),
      /** The body of the request: JSON as text. */
      request: z.string().max(limits.inspectInThreadAboveBytes),
    }),
    response: z.object({
      problems: problemsResponse,
      changes: z.array(changeResponse),
      /** The value of the header `x-gateway-policy`; null if nothing changes. */
      header: z.string().nullable(),
      /** The output cap that is sent to the upstream; null without one. */
      output_cap: z.number().nullable(),
      /** The changed body; null if it is rejected or does not change. */
      request: z.string().nullable(),
      /** The error that the client would receive. */
      error: z
        .object({ status: z.number(), code: z.string(), message: z.string(), param: z.string().nullable() })
        .nullable(),
    }),
    async run({ installation }, { body }) {
      const { document } = body;
      const { after, problems } = await previewDocument(installation, { request_policies: [document] });
      const record = after?.requestPolicies.find(({ name }) => name === document.name);
      return {
        problems: problemObjects(problems, "request_policies[0]"),
        ...(record === undefined || problems.length > 0
          ? UNTESTED
          : testRequest(record, body.interface, body.request)),
      };
    },
  }),
};

const UNTESTED = { changes: [], header: null, output_cap: null, request: null, error: null };

/** Models, networks and input tokens depend on the caller, so they are not part of the result. */
function testRequest(record: RequestPolicyRecord, dialect: Dialect, text: string) {
  const endpoint = { ...lookUpEndpoint(ENDPOINTS[dialect]), model: "model" };
  const { body: rules } = compileRequestPolicy(new Map([[record.name, record]]), record.name);
  const bounds = { depthMax: limits.jsonDepthMax, modelNameCharsMax: limits.modelNameCharsMax };
  try {
    const request = readModelRequest(wholeBytesPart(new TextEncoder().encode(text)), endpoint, bounds);
    const scanned = request.scannedBody();
    if (rules === null || scanned === null) return UNTESTED;
    const { changes, changed, outputCap } = applyRules(scanned, rules, endpoint);
    const sent = changed === null ? request : openChanged(changed, endpoint, bounds);
    return {
      changes: [...changes],
      header: changes.length === 0 ? null : formatChanges(changes),
      output_cap: outputCap,
      request: changed === null && outputCap === null ? null : writeSent(sent, outputCap),
      error: null,
    };
  } catch (thrown) {
    const { code, message, param, status } = asApiError(thrown);
    return { ...UNTESTED, error: { status, code, message, param: param ?? null } };
  }
}

/** As an account with the same interface receives it. */
function writeSent({ body, publicModel }: ModelRequest, outputCap: number | null): string {
  const parts = (outputCap === null ? body : body.withOutputCap(outputCap)).forUpstream(publicModel);
  if (!("length" in parts)) throw new Error("a JSON body is in memory");
  return new TextDecoder().decode(joinParts(parts));
}

async function findPolicy({ installation }: StoreContext, name: string): Promise<RequestPolicyRecord> {
  const policies = await listRequestPolicies(installation.db);
  const found = policies.find((policy) => policy.name === name);
  if (found === undefined) throw new ApiError("not_found", "This request policy does not exist.");
  return found;
}

async function readPolicyDetail(
  context: StoreContext,
  name: string,
): Promise<z.input<typeof policyResponse>> {
  const policy = await findPolicy(context, name);
  return policyObject(policy, (await countPolicyUse(context.installation.db)).get(name));
}

function policyObject(
  policy: RequestPolicyRecord,
  { groups, keys } = { groups: 0, keys: 0 },
): z.input<typeof policyResponse> {
  const document = requestPolicyToFile(policy);
  return { document, version: computeVersion(document), created_at: policy.createdAtMs, groups, keys };
}
