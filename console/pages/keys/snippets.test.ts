import { describe, expect, test } from "bun:test";
import { codex, curl, environment, type Interface, python, targetOf, typescript } from "./snippets.ts";

const origin = "https://gateway.example.com";
const target = (iface: Interface, model = "fast-chat") => ({ origin, model, interface: iface });

test("a model that can chat is taken before others", () => {
  const models: { id: string; interfaces: Interface[] }[] = [
    { id: "painter", interfaces: ["images"] },
    { id: "thinker", interfaces: ["responses"] },
    { id: "talker", interfaces: ["responses", "chat"] },
  ];
  expect(targetOf(origin, models)).toEqual({ origin, model: "talker", interface: "chat" });
  expect(targetOf(origin, models.slice(0, 1))).toEqual({ origin, model: "painter", interface: "images" });
  expect(targetOf(origin, [])).toBeNull();
});

describe("the version stands once in every address", () => {
  test.each<Interface>(["chat", "responses", "embeddings", "images"])("%s", (iface) => {
    for (const code of [curl(target(iface)), python(target(iface)), typescript(target(iface))])
      expect(code.match(/\/v1/g)).toHaveLength(1);
  });

  test("Codex", () => {
    expect(codex(target("responses"))).toContain(`base_url = "${origin}/v1"`);
  });
});

test("no example holds a key, only the variable's name", () => {
  for (const make of [curl, python, typescript, codex])
    expect(make(target("responses"))).toContain("MODEL_GATEWAY_KEY");
});

test("a hostile model name stays one argument of the shell", async () => {
  const model = `it's"$(touch${"/"}tmp/x)"`;
  const code = curl(target("chat", model)).replace(/^curl/, "printf '%s\\n'");
  const run = Bun.spawn(["sh", "-c", code], { stdout: "pipe", env: { MODEL_GATEWAY_KEY: "k" } });
  const lines = (await new Response(run.stdout).text()).trim().split("\n");
  expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ model });
});

test("the line that asks for the key can be pasted into a shell: what is typed next is the key, and is exported", async () => {
  const typed = `${environment}\ngwk_typed\nprintenv MODEL_GATEWAY_KEY\n`;
  const shell = Bun.spawn(["bash"], { stdin: new Blob([typed]), stdout: "pipe", stderr: "pipe" });
  expect(await new Response(shell.stdout).text()).toBe("gwk_typed\n");
  expect(await new Response(shell.stderr).text()).toBe("");
});
