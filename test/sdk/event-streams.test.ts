/** Event streams are split as the parser of other clients splits them. */

import { expect, test } from "bun:test";
import { createParser } from "client-event-parser";
import fc from "fast-check";
import { cutAt, cuts, event, latin1, split, streams, text } from "../../src/net/wire/sse.test-support.ts";

test("arbitrary bytes in arbitrary chunks yield the same events as eventsource-parser", () => {
  let seen = 0;
  fc.assert(
    fc.property(streams, cuts, (input, places) => {
      const expected: unknown[] = [];
      const parser = createParser({
        onEvent: ({ event, data }) => expected.push({ type: event ?? null, data }),
      });
      parser.feed(input);
      // Read only after the whole stream: an emitted array must not change afterwards.
      const events = split(cutAt(latin1(input), places))
        .blocks.map(({ bytes, start, end }) => event(text(bytes, start, end)))
        .filter(({ data }) => data !== null);
      expect<unknown[]>(events).toEqual(expected);
      seen += expected.length;
    }),
    { numRuns: 5000 },
  );
  expect(seen).toBeGreaterThan(1000);
});
