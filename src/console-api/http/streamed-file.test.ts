import { expect, test } from "bun:test";
import { streamedFile } from "./streamed-file.ts";

async function* failing(after: readonly string[]): AsyncGenerator<string, void> {
  yield* after;
  throw new Error("the store is away");
}

test("all parts are sent in order", async () => {
  async function* parts(): AsyncGenerator<string, void> {
    yield "a";
    yield "b";
  }
  expect(await new Response(await streamedFile(parts(), () => {})).text()).toBe("ab");
});

test("without text, the file is empty and ends", async () => {
  async function* parts(): AsyncGenerator<string, void> {
    yield "";
  }
  const file = await streamedFile(parts(), () => {});
  using server = Bun.serve({ port: 0, fetch: () => new Response(file) });
  expect(await (await fetch(server.url)).text()).toBe("");
});

test("a database error before the first part fails the request", async () => {
  expect(await streamedFile(failing([]), () => {}).catch(String)).toBe("Error: the store is away");
});

test("a later database error is reported, and the file is visibly incomplete", async () => {
  const faults: unknown[] = [];
  using server = Bun.serve({
    port: 0,
    error: () => new Response(null, { status: 500 }),
    fetch: async () =>
      new Response(await streamedFile(failing(["a", "b"]), (thrown) => faults.push(String(thrown)))),
  });
  const outcome = await fetch(server.url)
    .then((response) => response.text())
    .then(
      () => "whole",
      () => "cut",
    );
  expect(outcome).toBe("cut");
  expect(faults).toEqual(["Error: the store is away"]);
});
