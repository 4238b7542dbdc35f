/** The routes of the growth tests: every dialect of a client with every dialect of an account. */

import { afterAll, beforeAll } from "bun:test";
import { EVERY_ROUTE } from "./grow.ts";
import {
  buildRequest,
  type Canned,
  DIALECTS,
  type Dialect,
  eventStream,
  json,
  type Lab,
  type Result,
  type Sent,
  startLab,
} from "./lab.ts";
import type { StreamSample } from "./sample.ts";
import { SAMPLES } from "./samples.ts";

export const ROUTES = DIALECTS.flatMap((client) => DIALECTS.map((account) => [client, account] as const));

/**
 * CPU time that a MiB may cost, in the densest form that passes the bounds. A passed body is scanned, and walked once
 * more for its bounds: together up to 23 ms. Receiving, checking and sending it is the rest. A translation parses all of
 * it, call arguments twice, converts it and writes it: `JSON.parse` alone takes up to 29 ms for a MiB of short members,
 * and each opaque state is encrypted. Where an upstream reports no usage, the tokens are counted in addition: a MiB of
 * punctuation without spaces takes 500 ms, in short steps. The rules of a policy walk the conversation and the tools once
 * more, and a body that they change is scanned again.
 */
export const CPU_MS_PER_MIB = { passed: 40, ruled: 60, translated: 150, counted: 650 } as const;

/** A lab for the tests of a file, once all routes are compiled. It exists while they run. */
export function useWarmLab(): () => Lab {
  let lab: Lab;
  beforeAll(async () => {
    lab = await startLab();
    await warmUp(lab);
  });
  afterAll(() => lab.stop());
  return () => lab;
}

async function warmUp(lab: Lab): Promise<void> {
  for (let round = 0; round < 20; round++)
    for (const [client, account] of ROUTES)
      for (const stream of [false, true])
        await lab.run(
          plainRequest(client, { model: lab.model(account), stream }),
          plainReply(account, stream),
        );
}

/** An upstream's response that is a failure counts against the account, so the next run may need another model. */
export async function runOnAccount(
  lab: Lab,
  account: Dialect,
  request: (model: string) => Sent,
  reply: Canned,
): Promise<Result> {
  const result = await lab.run(request(lab.model(account)), reply);
  if (!isUnavailable(result)) return result;
  await lab.recover(
    account,
    (model) => plainRequest(account, { model, stream: false }),
    plainReply(account, false),
  );
  return lab.run(request(lab.model(account)), reply);
}

/** The gateway has rejected the request because the model cools down. */
export function isUnavailable({ isForwarded, status }: Result): boolean {
  return !isForwarded && (status === 429 || status >= 500);
}

/**
 * The cases for one route of several with the same documents. What is passed is tried in full. Each document is
 * translated to one other dialect, in turn; `npm run test:long` tries all of them.
 */
export function chooseCases<T>(
  cases: readonly T[],
  [fixed, other]: readonly [Dialect, Dialect],
): readonly T[] {
  if (fixed === other || process.env[EVERY_ROUTE] !== undefined) return cases;
  const others = DIALECTS.filter((dialect) => dialect !== fixed);
  return cases.filter((_, at) => others[at % others.length] === other);
}

/** A short request that every account serves. */
export function plainRequest(client: Dialect, options: { model: string; stream: boolean }) {
  return buildRequest(client, {
    ...options,
    body: JSON.stringify(SAMPLES[client].requests[1]?.json),
  });
}

/** A short response with a usage. */
export function plainReply(account: Dialect, stream: boolean): Canned {
  const { responses, streams } = SAMPLES[account];
  const [sample] = streams;
  return stream && sample !== undefined
    ? eventStream(account, writeEvents(sample))
    : json(JSON.stringify(responses[0]?.json));
}

function writeEvents({ head, events, tail }: StreamSample): string[] {
  return [...head, ...events, ...tail].map((event) =>
    typeof event === "string" ? event : JSON.stringify(event),
  );
}
