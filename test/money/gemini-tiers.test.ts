/** Service tiers of Gemini's API: the tier that is sent is the tier that is held and charged, in every spelling. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { callGemini, methodPath, userTurn } from "../gemini/gemini-gateway.ts";
import { bill, type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";

const PRICE = { input: "1", output: "10", tier: { priority: "2", flex: "0.5" } };
const INTERFACES = { interfaces: ["chat", "gemini"] };

/** The tier in the response of Google; null for none. */
let reported: string | null = null;
let received: Record<string, unknown> = {};
let heldNano = 0n;
let gateway: PaidGateway;
let upstream: ReturnType<typeof Bun.serve>;

beforeAll(async () => {
  upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: respond });
  const origin = `http://127.0.0.1:${upstream.port}`;
  const account = { credential: "credential", private_network: true };
  gateway = await startPaidGateway(
    {
      balance: "10",
      models: {
        google: { upstream: "up", price: PRICE, more: INTERFACES },
        openai: { upstream: "up", price: PRICE, more: INTERFACES },
      },
      accounts: [
        { ...account, name: "google", kind: "gemini", base_url: origin, models: { google: "up" } },
        { ...account, name: "openai", kind: "openai", base_url: `${origin}/v1`, models: { openai: "up" } },
      ],
      group: { interfaces: ["chat", "gemini"] },
    },
    { limits: { writeBehind: { ...limits.writeBehind, busyHolds: Number.POSITIVE_INFINITY } } },
  );
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});
beforeEach(() => {
  reported = null;
});

async function respond(request: Request): Promise<Response> {
  received = JSON.parse(await request.text());
  ({ heldNano } = await gateway.records.wallet());
  if (request.url.endsWith("/responses")) {
    return Response.json({
      id: "resp_1",
      object: "response",
      created_at: 1,
      model: "up",
      status: "completed",
      output: [
        { type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text: "Hi" }] },
      ],
      usage: { input_tokens: 100, output_tokens: 20, total_tokens: 120 },
    });
  }
  const json = {
    candidates: [{ content: { role: "model", parts: [{ text: "Hi" }] }, finishReason: "STOP", index: 0 }],
    usageMetadata: {
      promptTokenCount: 100,
      candidatesTokenCount: 20,
      totalTokenCount: 120,
      ...(reported === null ? {} : { serviceTier: reported }),
    },
    modelVersion: "up",
  };
  return request.url.includes("alt=sse")
    ? new Response(`data: ${JSON.stringify(json)}\n\n`, { headers: { "content-type": "text/event-stream" } })
    : Response.json(json);
}

const cost = (multiplier: string) =>
  bill(
    [
      [100, "1"],
      [20, "10"],
    ],
    multiplier,
  );

async function settled(sent: Response): Promise<{ charged: bigint; held: bigint }> {
  const text = await sent.text();
  expect([sent.status, text]).toEqual([200, text]);
  const { chargedNano } = await gateway.records.row(sent.headers.get("x-request-id") ?? "");
  return { charged: chargedNano, held: heldNano };
}

const BODY = { contents: [userTurn("Hello")], generationConfig: { maxOutputTokens: 50 } };

describe.each(["generateContent", "streamGenerateContent?alt=sse"])("%s", (method) => {
  const send = async (body: object) =>
    settled(await callGemini(gateway, methodPath("google", method), { ...BODY, ...body }));

  test.each([
    [{ serviceTier: "SERVICE_TIER_PRIORITY" }, { serviceTier: "SERVICE_TIER_STANDARD" }],
    [{ service_tier: "SERVICE_TIER_PRIORITY" }, { service_tier: "SERVICE_TIER_STANDARD" }],
    [{ serviceTier: "PRIORITY" }, { serviceTier: "STANDARD" }],
    [{ serviceTier: "priority" }, { serviceTier: "standard" }],
    // A value of the enumeration as a number is not read: it may be the dearest tier.
    [{ serviceTier: 3 }, { serviceTier: null }],
  ])("%j is held and charged as priority", async (dear, usual) => {
    const priority = await send(dear);
    expect(received).toMatchObject(dear);
    const standard = await send(usual);
    expect([priority.charged, standard.charged]).toEqual([cost("2"), cost("1")]);
    const shorter = BigInt(JSON.stringify(usual).length - JSON.stringify(dear).length);
    expect(priority.held).toBe((standard.held - shorter * 1_000n) * 2n);
  });

  test("the reported tier decides the price, in Google's spelling too", async () => {
    reported = "SERVICE_TIER_PRIORITY";
    expect((await send({})).charged).toBe(cost("2"));
    reported = "FLEX";
    expect((await send({ serviceTier: "SERVICE_TIER_FLEX" })).charged).toBe(cost("0.5"));
    reported = "STANDARD";
    expect((await send({ serviceTier: "SERVICE_TIER_PRIORITY" })).charged).toBe(cost("1"));
  });
});

test("a Gemini client's tier is translated for an OpenAI account and charged as it was sent", async () => {
  const sent = await callGemini(gateway, methodPath("openai", "generateContent"), {
    ...BODY,
    serviceTier: "SERVICE_TIER_PRIORITY",
  });
  expect((await settled(sent)).charged).toBe(cost("2"));
  expect(received).toMatchObject({ service_tier: "priority" });
});

test("a chat client's tier is translated for a Gemini account and charged as it was sent", async () => {
  for (const service_tier of ["priority", "SERVICE_TIER_PRIORITY"]) {
    const sent = await gateway.call("/v1/chat/completions", {
      model: "google",
      messages: [{ role: "user", content: "Hello" }],
      service_tier,
    });
    expect((await settled(sent)).charged).toBe(cost("2"));
    expect(received).toMatchObject({ serviceTier: "priority" });
  }
});
