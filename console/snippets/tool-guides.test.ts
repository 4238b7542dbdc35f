import { describe, expect, test } from "bun:test";
import { findGuideInterface, type GuideModel, TOOL_GUIDES, type ToolId } from "./tool-guides.ts";

const origin = "https://gateway.example.com";
const model: GuideModel = {
  id: "fast-chat",
  interfaces: ["chat", "responses", "messages", "gemini"],
  context_tokens: 200_000,
  max_output_tokens: null,
};

function write(id: ToolId, changes: Partial<GuideModel> = {}): string[] {
  const guide = TOOL_GUIDES.find((one) => one.id === id) ?? TOOL_GUIDES[0];
  return guide.write({ origin, model: { ...model, ...changes } }).map(({ code }) => code);
}

test("every tool gets an address, and none gets the version twice", () => {
  for (const { id } of TOOL_GUIDES) {
    const code = write(id).join("\n");
    expect(code).toContain(origin);
    expect(code).not.toContain("/v1/v1");
  }
});

test("no guide contains a key: tools without fields read it from the environment", () => {
  const withFields: readonly ToolId[] = ["cursor", "vsCode"];
  for (const { id } of TOOL_GUIDES) {
    const code = write(id).join("\n");
    expect(code).not.toContain("gwk_");
    expect(code.includes("MODEL_GATEWAY_KEY")).toBe(!withFields.includes(id));
  }
});

describe("the addresses", () => {
  test("of Claude Code and gemini-cli have no version", () => {
    expect(write("claudeCode")[0]).toContain(`ANTHROPIC_BASE_URL=${origin}\n`);
    expect(write("geminiCli")[1]).toContain(`GOOGLE_GEMINI_BASE_URL=${origin}\n`);
  });

  test("of VS Code are complete, in an interface of the model", () => {
    const list = (code = "") => JSON.parse(`{${code}}`).models;
    expect(list(write("vsCode")[0])).toMatchObject([
      { apiType: "chat-completions", url: `${origin}/v1/chat/completions`, maxInputTokens: 200_000 },
    ]);
    expect(list(write("vsCode", { interfaces: ["messages"] })[0])).toMatchObject([
      { apiType: "messages", url: `${origin}/v1/messages` },
    ]);
  });

  test("of opencode and LibreChat end with the version", () => {
    expect(JSON.parse(write("opencode")[0] ?? "")).toMatchObject({
      provider: { gateway: { options: { baseURL: `${origin}/v1` } } },
      model: "gateway/fast-chat",
    });
    expect(Bun.YAML.parse(write("libreChat")[0] ?? "")).toMatchObject({
      endpoints: { custom: [{ baseURL: `${origin}/v1`, models: { default: ["fast-chat"] } }] },
    });
  });
});

test("a hostile model name stays one word of the shell", async () => {
  const name = `it's"$(touch${"/"}tmp/x)"`;
  for (const id of ["claudeCode", "geminiCli"] as const) {
    const code = write(id, { id: name }).at(-1) ?? "";
    const lines = code.split("\n");
    const run = Bun.spawn(["sh", "-c", [...lines.slice(0, -1), 'echo "$ANTHROPIC_MODEL"'].join("\n")], {
      stdout: "pipe",
      env: { MODEL_GATEWAY_KEY: "k" },
    });
    expect((await new Response(run.stdout).text()).trim()).toBe(id === "claudeCode" ? name : "");
  }
});

test("a tool uses the first of its interfaces that the model has", () => {
  expect(findGuideInterface({ interfaces: ["responses", "chat"] }, { interfaces: ["chat"] })).toBe("chat");
  expect(findGuideInterface({ interfaces: ["gemini"] }, { interfaces: ["chat"] })).toBeUndefined();
});
