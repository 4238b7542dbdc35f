import { describe, expect, test } from "bun:test";
import { buildExample, type ExampleModel, environment, type Interface } from "./example-request.ts";
import { curl } from "./http-snippets.ts";
import { codex, python, typescript } from "./sdk-snippets.ts";
import type { SnippetRequest } from "./snippet.ts";

const origin = "https://gateway.example.com";

function example(iface: Interface, model = "fast-chat"): SnippetRequest {
  const request = buildExample(origin, [{ id: model, interfaces: [iface] }]);
  if (request === null) throw new Error("no example");
  return request;
}

test("a model that can chat is taken before others", () => {
  const models: ExampleModel[] = [
    { id: "painter", interfaces: ["images"] },
    { id: "thinker", interfaces: ["responses"] },
    { id: "talker", interfaces: ["responses", "chat"] },
  ];
  expect(buildExample(origin, models)).toMatchObject({
    path: "/v1/chat/completions",
    body: { model: "talker" },
  });
  expect(buildExample(origin, models.slice(0, 1))).toMatchObject({
    path: "/v1/images/generations",
    body: { model: "painter" },
  });
  expect(buildExample(origin, [])).toBeNull();
  expect(buildExample(origin, models, ["responses"])?.body).toMatchObject({ model: "thinker" });
});

describe("the version stands once in every address", () => {
  test.each<Interface>(["chat", "responses", "embeddings", "images"])("%s", (iface) => {
    for (const write of [curl, python, typescript])
      expect(write(example(iface))?.match(/\/v1/g)).toHaveLength(1);
  });

  test("gemini", () => {
    const code = curl(example("gemini", "gemini-2.5-pro"));
    expect(code).toContain(`${origin}/v1beta/models/gemini-2.5-pro:generateContent`);
    expect(code).not.toContain('"model"');
  });

  test("Codex", () => {
    expect(codex(example("responses"))).toContain(`base_url = "${origin}/v1"`);
  });
});

test("an example prints the content of the response", () => {
  expect(python(example("chat"))).toEndWith("print(answer.choices[0].message.content)");
  expect(python(example("responses"))).toEndWith("print(answer.output_text)");
  expect(typescript(example("embeddings"))).toEndWith("console.log(answer.data[0]?.embedding.slice(0, 4));");
  expect(typescript(example("images"))).toEndWith("console.log(answer.data?.[0]?.b64_json?.length);");
});

test("no example holds a key, only the variable's name", () => {
  for (const write of [curl, python, typescript, codex])
    expect(write(example("responses"))).toContain("MODEL_GATEWAY_KEY");
});

test("a hostile model name stays one argument of the shell", async () => {
  const model = `it's"$(touch${"/"}tmp/x)"`;
  const code = curl(example("chat", model)).replace(/^curl/, "printf '%s\\n'");
  const run = Bun.spawn(["sh", "-c", code], { stdout: "pipe", env: { MODEL_GATEWAY_KEY: "k" } });
  const text = await new Response(run.stdout).text();
  expect(JSON.parse(text.slice(text.indexOf("{")))).toMatchObject({ model });
});

test("the line that reads the key can be pasted into a shell: the next typed line is the key, and is exported", async () => {
  const typed = `${environment}\ngwk_typed\nprintenv MODEL_GATEWAY_KEY\n`;
  const shell = Bun.spawn(["bash"], { stdin: new Blob([typed]), stdout: "pipe", stderr: "pipe" });
  expect(await new Response(shell.stdout).text()).toBe("gwk_typed\n");
  expect(await new Response(shell.stderr).text()).toBe("");
});
