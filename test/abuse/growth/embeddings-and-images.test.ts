/** The work for embeddings and images grows no faster than the size of the request or response, on every route. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { z } from "zod";
import { embeddingsRequest, embeddingsResponse } from "../../../src/public-api/schemas/embeddings.ts";
import {
  geminiBatch,
  geminiBatchRequest,
  geminiEmbedding,
  geminiEmbedRequest,
} from "../../../src/public-api/schemas/gemini.ts";
import {
  imageEditRequest,
  imageEvent,
  imageRequest,
  imagesResponse,
} from "../../../src/public-api/schemas/images.ts";
import { listGrowthCases } from "./grow.ts";
import { listEventCases } from "./grow-events.ts";
import {
  type Canned,
  type Dialect,
  eventStream,
  json,
  type Lab,
  type Result,
  type Sent,
  startLab,
} from "./lab.ts";
import { judgeAll } from "./measure.ts";
import { listMissingPlaces } from "./places.ts";
import { CPU_MS_PER_MIB, isUnavailable } from "./routes.ts";
import type { JsonDocument } from "./sample.ts";
import {
  GEMINI_BATCH,
  GEMINI_EMBEDDINGS,
  OPENAI_EMBEDDINGS,
  type PathSamples,
} from "./samples/embeddings.ts";
import { IMAGE_EDIT, IMAGE_GENERATION, IMAGE_STREAM } from "./samples/images.ts";

setDefaultTimeout(600_000);

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());

interface Route {
  readonly name: string;
  readonly client: PathSamples;
  readonly account: Dialect;
  /** What the account returns. */
  readonly upstream: PathSamples;
}

const ROUTES: readonly Route[] = [
  {
    name: "embeddings passed to OpenAI",
    client: OPENAI_EMBEDDINGS,
    account: "chat",
    upstream: OPENAI_EMBEDDINGS,
  },
  {
    name: "embeddings translated to Gemini",
    client: OPENAI_EMBEDDINGS,
    account: "gemini",
    upstream: GEMINI_BATCH,
  },
  {
    name: "an embedding passed to Gemini",
    client: GEMINI_EMBEDDINGS,
    account: "gemini",
    upstream: GEMINI_EMBEDDINGS,
  },
  { name: "a batch passed to Gemini", client: GEMINI_BATCH, account: "gemini", upstream: GEMINI_BATCH },
  {
    name: "an embedding translated to OpenAI",
    client: GEMINI_EMBEDDINGS,
    account: "chat",
    upstream: OPENAI_EMBEDDINGS,
  },
  {
    name: "a batch translated to OpenAI",
    client: GEMINI_BATCH,
    account: "chat",
    upstream: OPENAI_EMBEDDINGS,
  },
  { name: "generated images", client: IMAGE_GENERATION, account: "chat", upstream: IMAGE_GENERATION },
  { name: "edited images", client: IMAGE_EDIT, account: "chat", upstream: IMAGE_GENERATION },
];

function request({ client, account }: Route, body: string, model = lab.model(account)): Sent {
  const path = client.path(model);
  return { path, body: path.startsWith("/v1beta/") ? body : `{"model":"${model}",${body.slice(1)}` };
}

const text = (document: JsonDocument | undefined) => JSON.stringify(document ?? {});
const msPerMib = ({ client, upstream }: Route) =>
  CPU_MS_PER_MIB[client === upstream || client === IMAGE_EDIT ? "passed" : "translated"];

/** A short request that the route's account serves. */
function plainBody({ client }: Route): string {
  return text(client.requests.at(client === OPENAI_EMBEDDINGS ? 1 : -1)?.json);
}

function recover(route: Route): Promise<void> {
  return lab.recover(
    route.account,
    (model) => request(route, plainBody(route), model),
    json(text(route.upstream.responses[0]?.json)),
  );
}

/** Runs with a model that is available: a failure of the run before counts against its model. */
async function run(route: Route, body: string, reply: Canned): Promise<Result> {
  const result = await lab.run(request(route, body), reply);
  if (!isUnavailable(result)) return result;
  await recover(route);
  return lab.run(request(route, body), reply);
}

test.each(ROUTES.map((route) => [route.name, route] as const))(
  "the work for %s grows linearly",
  async (name, route) => {
    for (let i = 0; i < 20; i++) await recover(route);
    const reply = json(text(route.upstream.responses[0]?.json));
    const requests = route.client.requests.flatMap((sample) =>
      listGrowthCases(sample.json).map(({ place, variant, build }) => ({
        name: `request ${sample.name}: ${place}, ${variant}`,
        msPerMib: msPerMib(route),
        send: (bytes: number) => run(route, build(bytes), reply),
      })),
    );
    const responses = route.upstream.responses.flatMap((sample) =>
      listGrowthCases(sample.json).map(({ place, variant, build }) => ({
        name: `response ${sample.name}: ${place}, ${variant}`,
        msPerMib: msPerMib(route),
        send: (bytes: number) => run(route, plainBody(route), json(build(bytes))),
      })),
    );
    expect(await judgeAll(name, [...requests, ...responses])).toEqual([]);
  },
);

test("the work for streamed images grows linearly", async () => {
  const body = `{"model":"${lab.model("chat")}","stream":true,${text(IMAGE_GENERATION.requests[0]?.json).slice(1)}`;
  const runs = listEventCases(IMAGE_STREAM).map(({ place, variant, build }) => ({
    name: `${place}, ${variant}`,
    msPerMib: CPU_MS_PER_MIB.passed,
    send: (bytes: number) =>
      lab.run({ path: "/v1/images/generations", body }, eventStream("responses", build(bytes))),
  }));
  expect(await judgeAll("streamed images", runs)).toEqual([]);
});

describe("the samples have every repeated place of", () => {
  test.each<[string, z.ZodType, readonly unknown[]]>([
    ["embeddings", embeddingsRequest, OPENAI_EMBEDDINGS.requests],
    ["their response", embeddingsResponse, OPENAI_EMBEDDINGS.responses],
    ["Gemini's embeddings", geminiEmbedRequest, GEMINI_EMBEDDINGS.requests],
    ["their response", geminiEmbedding, GEMINI_EMBEDDINGS.responses],
    ["Gemini's batches", geminiBatchRequest, []],
    ["their response", geminiBatch, GEMINI_BATCH.responses],
    ["image generation", imageRequest, IMAGE_GENERATION.requests],
    ["image edits", imageEditRequest, IMAGE_EDIT.requests],
    ["their response", imagesResponse, IMAGE_GENERATION.responses],
  ])("%s", (_, schema, samples) => {
    // A batch consists of requests whose samples are those of one embedding.
    const documents =
      schema === geminiBatchRequest
        ? [{ requests: GEMINI_EMBEDDINGS.requests.map((sample) => sample.json) }]
        : samples.map((sample) => (sample as { readonly json: unknown }).json);
    expect(listMissingPlaces(schema, documents)).toEqual([]);
  });

  test("events of image streams", () => {
    expect(listMissingPlaces(imageEvent, [...IMAGE_STREAM.events, ...IMAGE_STREAM.tail])).toEqual([]);
  });
});
