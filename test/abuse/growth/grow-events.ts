/** Derives growth cases from the events of a stream. */

import {
  countFor,
  describeElement,
  distinguish,
  isObject,
  listGrowthCases,
  listNodes,
  NUMBER,
  repeatNames,
  setAt,
  TEXTS,
} from "./grow.ts";
import type { JsonDocument, StreamSample } from "./sample.ts";

export interface EventCase {
  readonly place: string;
  readonly variant: string;
  /** The JSON texts of all events of the stream. */
  build(bytes: number): readonly string[];
}

/** The events of a stream in order and in groups, each kind alone, and every place in an event. */
export function listEventCases({ head, events, tail }: StreamSample): EventCase[] {
  const whole = (repeated: readonly string[]) => [...head.map(write), ...repeated, ...tail.map(write)];
  const repeat = listRepeatedEvents(events).map(({ build, ...rest }) => ({
    ...rest,
    build: (bytes: number) => whole(build(bytes)),
  }));
  const all = [...head, ...events, ...tail];
  const texts = all.map(write);
  const inner = all.flatMap((event, at) => {
    if (typeof event === "string") return [];
    return listGrowthCases(event).map(({ place, variant, build }) => ({
      place: `${describeEvent(event, at)}.${place}`,
      variant,
      build: (bytes: number) => texts.map((text, other) => (other === at ? build(bytes) : text)),
    }));
  });
  return [...repeat, ...inner, ...listPairedCases(all)];
}

/** A long list in one event, then many others: a reader may keep the list and read it for each of them. */
function listPairedCases(all: StreamSample["tail"]): EventCase[] {
  const objects = all.slice(0, -1).filter(isObject).map(write);
  return all.flatMap((event, at) =>
    (typeof event === "string" ? [] : listGrowthCases(event))
      .filter(({ variant }) => variant === "distinct")
      .map(({ place, build }) => ({
        place: `${describeEvent(event, at)}.${place}`,
        variant: "distinct, then all events",
        build: (bytes: number) => {
          const count = countFor(objects.join(), bytes / 2);
          const events = all.map((one, other) => (other === at ? build(bytes / 2) : write(one)));
          const repeated = Array<readonly string[]>(count).fill(objects).flat();
          return [...events.slice(0, at + 1), ...repeated, ...events.slice(at + 1)];
        },
      })),
  );
}

const write = (event: JsonDocument | string) => (typeof event === "string" ? event : JSON.stringify(event));

/** Events over a MiB are read in another way: each has a text of this length, and its names again. */
const LONG_TEXT = "a".repeat(1_100_000);

export function listLongEventCases({ head, events, tail }: StreamSample): EventCase[] {
  const all = [...head, ...events, ...tail];
  return all.flatMap((event, at) => {
    if (typeof event === "string") return [];
    const text = listNodes(event).find(
      ({ path, value }) => typeof value === "string" && TEXTS.has(String(path.at(-1))),
    );
    if (text === undefined) return [];
    const { build, variant } = repeatNames(setAt(event, text.path, LONG_TEXT) as JsonDocument);
    return [
      {
        place: describeEvent(event, at),
        variant: `${variant}, beside a long text`,
        build: (bytes: number) => all.map((one, other) => (other === at ? build(bytes) : write(one))),
      },
    ];
  });
}

function listRepeatedEvents(events: readonly JsonDocument[]): EventCase[] {
  if (events.length === 0) return [];
  const equal = events.map((event) => JSON.stringify(event));
  const distinct = events.map((event) => JSON.stringify(distinguish(event)));
  const inOrder = (list: readonly string[]) => (bytes: number) =>
    Array.from({ length: countFor(list.join(), bytes) }, (_, at) =>
      list.map((text) => number(text, at)),
    ).flat();
  const inGroups = (bytes: number) => {
    const count = countFor(distinct.join(), bytes);
    return distinct.flatMap((text) => Array.from({ length: count }, (_, at) => number(text, at)));
  };
  const alone = events.flatMap((event, at): EventCase[] => [
    { place: describeEvent(event, at), variant: "alone, equal", build: inOrder(equal.slice(at, at + 1)) },
    {
      place: describeEvent(event, at),
      variant: "alone, distinct",
      build: inOrder(distinct.slice(at, at + 1)),
    },
  ]);
  return [
    { place: "events", variant: "equal", build: inOrder(equal) },
    { place: "events", variant: "distinct", build: inOrder(distinct) },
    { place: "events", variant: "in groups", build: inGroups },
    ...alone,
  ];
}

function number(text: string, at: number): string {
  return text.replaceAll(`"${NUMBER}${NUMBER}"`, String(at)).replaceAll(NUMBER, String(at));
}

function describeEvent(event: JsonDocument | string, at: number): string {
  if (typeof event === "string") return event;
  const inner = [event.delta, event.content_block, event.item].find(isObject);
  const kind = inner === undefined ? "" : ` ${describeElement(inner)}`;
  return `events[${at}: ${typeof event.type === "string" ? event.type : "chunk"}${kind}]`;
}
