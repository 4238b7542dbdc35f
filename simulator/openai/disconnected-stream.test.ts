/** Tests of hidden reasoning that is billed, and of responses that continue without their reader. */

import { afterAll, expect, test } from "bun:test";
import { eventually } from "../../test/support/eventually.ts";
import { startSimulator } from "../simulator.ts";

const simulator = startSimulator({ seed: 7 });
afterAll(() => simulator.stop());

const post = (body: object, signal?: AbortSignal) =>
  fetch(`${simulator.url}/responses`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });

/** Opens a stream and disconnects once its id is known. */
async function leave(model: string): Promise<string> {
  const leaving = new AbortController();
  const response = await post({ model, input: "Hello", stream: true }, leaving.signal);
  const reader = response.body?.getReader();
  let text = "";
  while (!/"id":"resp_/.test(text)) text += new TextDecoder().decode((await reader?.read())?.value);
  leaving.abort();
  await eventually(() => simulator.ledger.totals().inFlight, { equals: 0 });
  return /"id":"(resp_[^"]+)"/.exec(text)?.[1] ?? "";
}

const look = async (id: string) => {
  const response = await fetch(`${simulator.url}/responses/${id}`);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
};

test("hidden reasoning is in the usage, in no text, and within the bound of the answer", async () => {
  const ask = async (more: object) => {
    const body = { model: "sim-fast@hidden=400", input: "Hello", ...more };
    const made = (await (await post(body)).json()) as { usage: { output_tokens: number }; output: unknown[] };
    return { ...made.usage, items: made.output.length };
  };
  const { output_tokens: plain } = await ask({ model: "sim-fast" });
  expect(await ask({})).toMatchObject({
    output_tokens: 400 + Number(plain),
    output_tokens_details: { reasoning_tokens: 400 },
    items: 1,
  });
  expect(await ask({ max_output_tokens: 100 })).toMatchObject({
    output_tokens: 100,
    output_tokens_details: { reasoning_tokens: 100 },
  });
});

test("an aborted stream has produced its hidden reasoning and what it had shown", async () => {
  await leave("sim-fast@hidden=400,events=500,interval=5ms");
  const entry = simulator.ledger.last();
  expect(entry).toMatchObject({ abortedByClient: true, reasoningTokens: 400 });
  expect(entry?.outputTokens).toBeLessThan(450);
});

test("a stored response stops with its reader, or continues and is billed in full", async () => {
  const stopped = await leave("sim-fast@events=500,interval=5ms");
  expect((await look(stopped)).status).toBe(404);
  const detached = await leave("sim-fast@events=500,interval=5ms,detached=300ms");
  const entry = simulator.ledger.entries().at(-1);
  expect((await look(detached)).body.status).toBe("in_progress");
  const done = await eventually(async () => {
    const { body } = await look(detached);
    return body.status === "completed" ? body : null;
  });
  expect(done.usage).toMatchObject({ output_tokens: entry?.outputTokens ?? 0 });
});
