import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import { type HttpResponse, SharedResponse, WholeResponse } from "../../net/wire/http-message.ts";
import type { Key } from "../../policy/key-index.ts";
import { compileSnapshot } from "../../policy/snapshot.ts";
import { ENDPOINTS } from "../../protocols/endpoints.ts";
import type { Endpoint, EndpointName } from "../../protocols/shared/endpoint.ts";
import type { AccountRecord } from "../../records/account.ts";
import type { GroupRecord } from "../../records/group.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import { NO_LIMITS } from "../../records/limits.ts";
import type { ModelRecord } from "../../records/model.ts";
import { accountRecord, groupRecord, modelRecord } from "../../records/records.test-support.ts";
import { getModel, listModels, readModelPage, respondWithModels } from "../endpoints/models.ts";
import { admit, allowInterface } from "./admit.ts";
import type { Caller } from "./authenticate.ts";

const KEY: Key = {
  id: "k1",
  name: "laptop",
  publicId: "pub",
  userId: null,
  groupId: "g1",
  expiresAtMs: null,
  limits: NO_LIMITS,
  userLimits: NO_LIMITS,
  requestPolicy: null,
  fallback: null,
  capture: null,
  isTool: false,
  createdAtMs: 1,
};

const model = (id: string, interfaces: ModelRecord["interfaces"] = ["chat"]): ModelRecord =>
  modelRecord(id, { interfaces, createdAtMs: 1_790_000_000_999 });

const account = (id: string, change: Partial<AccountRecord> = {}): AccountRecord =>
  accountRecord(id, { interfaces: [...INTERFACES], models: { "*": "up-*" }, ...change });

function caller(models: ModelRecord[], accounts: AccountRecord[], change: Partial<GroupRecord> = {}): Caller {
  const record = groupRecord("g1", {
    models: models.map(({ id }) => id),
    accounts: accounts.map(({ id }) => id),
    ...change,
  });
  const snapshot = compileSnapshot(
    { models, accounts, groups: [record] },
    { simulatorUrl: null, unseal: () => null },
  );
  const group = snapshot.groups.get("g1");
  if (!group) throw new Error("the group is not in the snapshot");
  return { key: KEY, group };
}

function endpoint(name: EndpointName): Endpoint {
  const found = ENDPOINTS.find((one) => one.name === name);
  if (!found) throw new Error(`no endpoint ${name}`);
  return found;
}

function rejection(attempt: () => unknown): Pick<ApiError, "status" | "code" | "param" | "message"> | null {
  try {
    attempt();
    return null;
  } catch (thrown) {
    if (thrown instanceof ApiError) return thrown;
    throw thrown;
  }
}

const CHAT = endpoint("chat.completions");

describe("admission", () => {
  test("returns the routes of a published model, best first", () => {
    const accounts = [account("late", { priority: 2 }), account("first", { priority: 1 })];
    const { model: admitted, routes } = admit(caller([model("fast")], accounts), CHAT, "fast");
    expect(admitted.id).toBe("fast");
    expect(routes.map((route) => [route.account.id, route.upstreamModel])).toEqual([
      ["first", "up-fast"],
      ["late", "up-fast"],
    ]);
  });

  test("rejects an interface that the group does not allow, before it looks up the model", () => {
    const group = caller([model("fast")], [account("a")], { interfaces: ["embeddings"] });
    for (const name of ["fast", "unknown"]) {
      expect(rejection(() => admit(group, CHAT, name))).toMatchObject({
        status: 403,
        code: "interface_not_allowed",
      });
    }
    expect(rejection(() => allowInterface(group, CHAT))?.code).toBe("interface_not_allowed");
    expect(rejection(() => allowInterface(group, endpoint("embeddings")))).toBeNull();
  });

  test("returns the same error for an unknown model and for an unpublished model", () => {
    const here = caller([model("fast"), model("other")], [account("a")], { models: ["fast"] });
    const unpublished = rejection(() => admit(here, CHAT, "other"));
    const unknown = rejection(() => admit(here, CHAT, "nothing"));
    expect(unpublished).toMatchObject({ status: 404, code: "model_not_found", param: "model" });
    expect(unknown).toMatchObject({ status: 404, code: "model_not_found", param: "model" });
    expect(unpublished?.message.replace("other", "X")).toBe(unknown?.message.replace("nothing", "X") ?? "");
    expect(unknown?.message).toContain("The model `nothing` does not exist or you do not have access to it.");
  });

  test("suggests the published model that was probably meant, and never an unpublished one", () => {
    const models = [model("my-model"), model("your-model")];
    const here = caller(models, [account("a")], { models: ["my-model"] });
    expect(rejection(() => admit(here, CHAT, "mymodel"))?.message).toBe(
      "The model `mymodel` does not exist or you do not have access to it. Did you mean `my-model`? GET /v1/models lists the models of this key.",
    );
    expect(rejection(() => getModel(here.group, "My_model"))?.message).toContain("Did you mean `my-model`?");
    for (const name of ["yourmodel", "your-model"])
      expect(rejection(() => admit(here, CHAT, name))?.message).not.toContain("Did you mean");
  });

  test("names the right endpoint when a model is called through the wrong interface", () => {
    const rejected = rejection(() =>
      admit(caller([model("vectors", ["embeddings"])], [account("a")]), CHAT, "vectors"),
    );
    expect(rejected).toMatchObject({ status: 400, code: "invalid_value", param: "model" });
    expect(rejected?.message).toBe("The model `vectors` supports embeddings, not chat. Use /v1/embeddings.");
  });

  test("names an endpoint that is not translated, because the model supports its interface", () => {
    const calling = caller(
      [model("claude", ["responses"])],
      [account("a", { kind: "anthropic", interfaces: ["messages"] })],
    );
    const rejected = rejection(() => admit(calling, endpoint("responses.compact"), "claude"));
    expect(rejected).toMatchObject({ code: "invalid_value", param: "model" });
    expect(rejected?.message).toBe(
      "The model `claude` does not support /v1/responses/compact, because its upstream has another interface. Use another model.",
    );
  });
});

function readList(response: HttpResponse): ReturnType<typeof listModels> {
  if (response instanceof SharedResponse) return JSON.parse(Buffer.from(response.bytes).toString());
  if (response instanceof WholeResponse) return JSON.parse(Buffer.from(joinParts(response.body)).toString());
  throw new Error("the list of a few models is not streamed");
}

describe("the model list", () => {
  test("has the fields of OpenAI's list and of Anthropic's, and names no provider", () => {
    expect(listModels(caller([model("fast")], [account("a")]).group)).toEqual({
      object: "list",
      data: [
        {
          id: "fast",
          object: "model",
          type: "model",
          display_name: "fast",
          created: 1_790_000_000,
          created_at: "2026-09-21T14:13:20Z",
          owned_by: "model-gateway",
          interfaces: ["chat"],
          translated_interfaces: [],
        },
      ],
      has_more: false,
      first_id: "fast",
      last_id: "fast",
    });
  });

  test("is paged for clients that request pages", () => {
    const { group } = caller([model("a"), model("b"), model("c")], [account("x")]);
    const page = (query: string) => {
      const response = respondWithModels(group, readModelPage(new URLSearchParams(query)), "req_1");
      const { data, has_more } = readList(response);
      return [data.map(({ id }) => id).join(""), has_more];
    };
    expect(page("")).toEqual(["abc", false]);
    expect(page("limit=2")).toEqual(["ab", true]);
    expect(page("limit=2&after_id=b")).toEqual(["c", false]);
    expect(page("limit=1&before_id=c")).toEqual(["b", true]);
    expect(rejection(() => page("limit=0"))).toMatchObject({ code: "invalid_value", param: "limit" });
  });

  test("retrieves one model by id, or fails with the error of a request for that model", () => {
    const { group } = caller([model("org/fast")], [account("a")]);
    expect(getModel(group, "org/fast").id).toBe("org/fast");
    expect(rejection(() => getModel(group, "nothing"))).toMatchObject({
      status: 404,
      code: "model_not_found",
    });
  });

  test("contains exactly the models that admission accepts at some endpoint", () => {
    const ids = ["m1", "m2", "gpt-6", "gpt-6-mini"];
    const interfaces = fc.subarray([...INTERFACES]);
    const models = fc.tuple(...ids.map((id) => interfaces.map((list) => model(id, list))));
    const accounts = fc.tuple(
      ...["a1", "a2"].map((id) =>
        fc
          .record({
            interfaces,
            enabled: fc.boolean(),
            models: fc.dictionary(fc.constantFrom("*", "gpt-*", "gpt-6", "m1"), fc.constantFrom("x", "x-*")),
          })
          .map((change) => account(id, change)),
      ),
    );
    const group = fc.record({
      interfaces,
      models: fc.shuffledSubarray(ids),
      accounts: fc.shuffledSubarray(["a1", "a2"]),
    });
    fc.assert(
      fc.property(models, accounts, group, (allModels, allAccounts, change) => {
        const here = caller(allModels, allAccounts, change);
        const listed = listModels(here.group).data.map(({ id }) => id);
        const admitted = ids.filter((id) =>
          ENDPOINTS.some((one) => rejection(() => admit(here, one, id)) === null),
        );
        expect(listed.toSorted()).toEqual(admitted.toSorted());
        for (const id of listed) {
          expect(getModel(here.group, id).id).toBe(id);
          for (const one of ENDPOINTS) {
            let routes = 1;
            rejection(() => {
              routes = admit(here, one, id).routes.length;
            });
            expect(routes).toBeGreaterThan(0);
          }
        }
      }),
    );
  });
});
