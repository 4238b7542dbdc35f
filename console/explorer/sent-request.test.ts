import { describe, expect, test } from "bun:test";
import { type ExplorerOperation, findOperation } from "./described.ts";
import { NO_FILES } from "./picture-files.tsx";
import { buildPath, buildRequest, buildSnippetRequest } from "./sent-request.ts";

function operation(id: string): ExplorerOperation {
  const found = findOperation(id);
  if (found === null) throw new Error(`There is no operation ${id}.`);
  return found;
}

const file = (name: string) => new File(["x"], name, { type: "image/png" });
const edit = (files: { images: File[]; mask: File | null }) => ({
  operation: operation("editImages"),
  body: JSON.stringify({ model: "m", prompt: "Night", n: 2, images: [{ image_url: "data:," }], mask: {} }),
  parameters: {},
  files,
});

describe("the path", () => {
  test("has its parameters filled in and escaped", () => {
    const path = (model: string) => buildPath({ operation: operation("getModel"), parameters: { model } });
    expect(path(" fast-chat ")).toBe("/v1/models/fast-chat");
    expect(path("a/b?c#d")).toBe("/v1/models/a%2Fb%3Fc%23d");
  });

  test("contains only the query parameters that are filled in", () => {
    const usage = operation("getUsage");
    const [first] = usage.parameters.filter((one) => one.in === "query");
    const name = first?.name ?? "";
    expect(buildPath({ operation: usage, parameters: { [name]: "a b" } })).toBe(`/v1/usage?${name}=a+b`);
    expect(buildPath({ operation: usage, parameters: { [name]: " " } })).toBe("/v1/usage");
  });
});

describe("the sent body", () => {
  test("is the typed text, even if it is not JSON", () => {
    const typed = { operation: operation("createResponse"), body: "{", parameters: {}, files: NO_FILES };
    expect(buildRequest(typed)).toEqual({ method: "POST", path: "/v1/responses", body: "{", isJson: true });
  });

  test("is empty for an operation without a body", () => {
    const typed = { operation: operation("listModels"), body: "", parameters: {}, files: NO_FILES };
    expect(buildRequest(typed)).toEqual({ method: "GET", path: "/v1/models", body: null, isJson: false });
  });

  test("is a form if files are selected, and the files replace the images in the body", () => {
    const { body, isJson } = buildRequest(
      edit({ images: [file("a.png"), file("b.png")], mask: file("m.png") }),
    );
    if (!(body instanceof FormData)) throw new Error("That is no form.");
    expect(isJson).toBe(false);
    expect([...body.keys()]).toEqual(["model", "prompt", "n", "image[]", "image[]", "mask"]);
    expect(body.get("n")).toBe("2");
    expect(buildRequest(edit({ images: [], mask: file("m.png") })).isJson).toBe(true);
  });

  test('names the field of a single image "image", which every upstream supports', () => {
    const { body } = buildRequest(edit({ images: [file("a.png")], mask: null }));
    expect(body instanceof FormData && [...body.keys()]).toEqual(["model", "prompt", "n", "image"]);
  });
});

describe("the snippet of a request", () => {
  test("names the files and contains no image data", () => {
    const request = buildSnippetRequest(edit({ images: [file("a.png")], mask: file("m.png") }), "https://gw");
    expect(request).toEqual({
      baseUrl: "https://gw",
      method: "POST",
      path: "/v1/images/edits",
      isSocket: false,
      body: { model: "m", prompt: "Night", n: 2 },
      files: [
        { field: "image", name: "a.png" },
        { field: "mask", name: "m.png" },
      ],
    });
  });

  test("has an empty body if the typed body is not valid JSON", () => {
    const typed = { operation: operation("createResponse"), body: "{", parameters: {}, files: NO_FILES };
    expect(buildSnippetRequest(typed, "https://gw").body).toEqual({});
  });
});
