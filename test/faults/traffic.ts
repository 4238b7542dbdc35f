/** Mixed traffic at a steady rate, whatever becomes of the responses. */

import { type ClientRecord, type ClientRequest, sendRequest } from "./client.ts";
import { sendInBackground } from "./more-clients.ts";

export const MODELS = {
  fast: "sim-fast",
  short: "sim-fast@events=20,interval=10ms",
  long: "sim-fast@events=100,interval=40ms",
  reason: "sim-reason@interval=5ms",
  slow: "sim-fast@first=150ms",
  /** In the background: long enough for its node to be killed or replaced meanwhile. */
  later: "sim-fast@events=20,background=2s",
  shaky: "sim-fast",
};

/** Served by an account of Anthropic's API. */
export const MESSAGES = { claude: "sim-fast@events=30,interval=15ms" };

/** Served by an account that fails. `shaky` has another one behind it. */
export const FAULTY = {
  silent: "fault/no-usage@events=20,interval=5ms",
  broken: "fault/rst@chunk6,events=20,interval=5ms",
  cut: "fault/cut@chunk6,events=20,interval=5ms",
  error: "fault/500",
  failed: "fault/failed",
  incomplete: "fault/incomplete",
  absurd: "fault/usage-absurd",
  shaky: "fault/503",
};

const PROMPTS = [
  "Hello there.",
  "Summarise the minutes of the meeting on Thursday in three sentences, please, and leave the names out.",
  "Why is the sky blue? ".repeat(20),
  "数据库连接失败时应该怎么办？请给出详细的步骤。",
];

interface Shape extends Pick<ClientRequest, "family" | "model" | "stream" | "search"> {
  inBackground?: true;
}

/** Shapes with their weights. */
export type Mix = readonly (readonly [number, Shape])[];

const MIX: Mix = [
  [30, { family: "chat", model: "fast", stream: false }],
  [14, { family: "responses", model: "fast", stream: false }],
  [5, { family: "chat", model: "slow", stream: false }],
  [12, { family: "chat", model: "short", stream: true }],
  [10, { family: "responses", model: "short", stream: true }],
  [4, { family: "responses", model: "reason", stream: true }],
  [4, { family: "chat", model: "long", stream: true }],
  [4, { family: "responses", model: "long", stream: true }],
  [9, { family: "embeddings", model: "fast", stream: false }],
];
/** Requests that another step serves, and searches of the web: `routing-setup.ts` has their models. */
const ROUTED: Mix = [
  [4, { family: "chat", model: "moved", stream: true }],
  [3, { family: "responses", model: "moved", stream: false }],
  [3, { family: "chat", model: "changed", stream: false }],
  [3, { family: "responses", model: "changed", stream: true }],
  [3, { family: "messages", model: "finder", stream: true, search: { max: null } }],
  [2, { family: "messages", model: "finder", stream: false, search: { max: 2 } }],
  [3, { family: "responses", model: "seeker", stream: true, search: { max: null } }],
  [2, { family: "responses", model: "seeker", stream: false, search: { max: 4 } }],
];
export const ROUTED_MIX: Mix = [...MIX, ...ROUTED];
/** Of several nodes: also Messages, and responses that another node may have to follow to their end. */
export const NODES_MIX: Mix = [
  ...MIX,
  [6, { family: "messages", model: "claude", stream: true }],
  [4, { family: "messages", model: "claude", stream: false }],
  [5, { family: "responses", model: "later", stream: false, inBackground: true }],
];
export const ROUTED_NODES_MIX: Mix = [...NODES_MIX, ...ROUTED];
const FAULTY_SHARE = 0.08;
const LEAVING_SHARE = 0.1;

function pick<T>(list: readonly T[]): T {
  const chosen = list[Math.floor(Math.random() * list.length)];
  if (chosen === undefined) throw new Error("nothing to pick from");
  return chosen;
}

function shapeAtRandom(mix: Mix): Shape {
  if (Math.random() < FAULTY_SHARE) {
    const model = pick(Object.keys(FAULTY));
    return { family: pick(["chat", "responses"]), model, stream: Math.random() < 0.6 };
  }
  let left = Math.random() * mix.reduce((sum, [weight]) => sum + weight, 0);
  for (const [weight, shape] of mix) {
    left -= weight;
    if (left < 0) return shape;
  }
  return { family: "chat", model: "fast", stream: false };
}

export interface Traffic {
  asked: number;
  /** From now on. */
  use(mix: Mix): void;
  /** No new requests; resolves when all have ended in whatever way. */
  stop(): Promise<ClientRecord[]>;
}

const TICK_MS = 5;

export interface TrafficOptions {
  /** Of the node for the next request. */
  url(): string;
  keys: readonly string[];
  perSecond: number;
  mix?: Mix;
  /** Whether a request of the key for this model can be checked; any can unless set. */
  isMeasurable?: (key: string, model: string) => boolean;
}

export function startTraffic({
  url,
  keys,
  perSecond,
  mix: firstMix = MIX,
  isMeasurable = () => true,
}: TrafficOptions): Traffic {
  let mix = firstMix;
  const responses: Promise<ClientRecord>[] = [];
  const beganMs = performance.now();
  const timer = setInterval(() => {
    const due = ((performance.now() - beganMs) / 1000) * perSecond;
    while (responses.length < due) {
      const key = pick(keys);
      const { inBackground, ...shape } = shapeAtRandom(mix);
      if (!isMeasurable(key, shape.model)) continue;
      const leaves = Math.random() < LEAVING_SHARE;
      const leaveAfterMs = leaves ? Math.random() * (shape.model === "long" ? 3_000 : 250) : null;
      const asking = {
        url: url(),
        nextUrl: url,
        key,
        prompt: pick(PROMPTS),
        leaveAfterMs,
        ...shape,
      };
      responses.push(inBackground ? sendInBackground(asking) : sendRequest(asking));
    }
  }, TICK_MS);
  return {
    get asked() {
      return responses.length;
    },
    use(next) {
      mix = next;
    },
    stop() {
      clearInterval(timer);
      return Promise.all(responses);
    },
  };
}
