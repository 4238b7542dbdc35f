import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Account, Route } from "../policy/snapshot.ts";
import { chooseRoute } from "./choose.ts";

const account = (id: string, priority: number, weight: number): Account => ({
  id,
  name: id,
  kind: "openai",
  baseUrl: "https://upstream.example",
  basePath: "",
  credential: null,
  apiVersion: null,
  interfaces: new Set(["chat"]),
  privateNetwork: false,
  priority,
  weight,
  models: {},
});

const route = (id: string, priority = 1, weight = 1): Route => ({
  account: account(id, priority, weight),
  upstreamModel: "m",
});

const NONE: ReadonlySet<Route> = new Set();

describe("choosing an account", () => {
  test("the best priority comes first, whatever the weights below it are", () => {
    const [first, second] = [route("a", 1, 1), route("b", 2, 1_000)];
    for (const chance of [0, 0.5, 0.999]) {
      expect(chooseRoute([first, second], NONE, () => chance)).toBe(first);
    }
  });

  test("within a priority the weights share the requests out", () => {
    const [light, heavy] = [route("a", 1, 1), route("b", 1, 3)];
    const chosen = [0, 0.2, 0.25, 0.5, 0.99].map((chance) => chooseRoute([light, heavy], NONE, () => chance));
    expect(chosen).toEqual([light, light, heavy, heavy, heavy]);
  });

  test("an account that was tried is not chosen again", () => {
    const [first, second] = [route("a"), route("b")];
    for (const chance of [0, 0.999]) {
      expect(chooseRoute([first, second], new Set([first]), () => chance)).toBe(second);
    }
  });

  test("the next priority is used once the better one has been tried in full", () => {
    const [first, second, reserve] = [route("a", 1), route("b", 1), route("c", 2)];
    expect(chooseRoute([first, second, reserve], new Set([first, second]), () => 0)).toBe(reserve);
  });

  test("nothing is left when every account has been tried", () => {
    const only = route("a");
    expect(chooseRoute([only], new Set([only]), () => 0)).toBeNull();
    expect(chooseRoute([], NONE, () => 0)).toBeNull();
  });

  test("asking until nothing is left visits every account once, priorities in order", () => {
    const routes = fc.array(
      fc.record({ priority: fc.integer({ min: 0, max: 3 }), weight: fc.integer({ min: 1, max: 9 }) }),
    );
    const chances = fc.infiniteStream(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }));
    fc.assert(
      fc.property(routes, chances, (shapes, stream) => {
        const all = shapes
          .map(({ priority, weight }, i) => route(`a${i}`, priority, weight))
          .sort((a, b) => a.account.priority - b.account.priority);
        const tried = new Set<Route>();
        const random = () => stream.next().value ?? 0;
        for (let next = chooseRoute(all, tried, random); next; next = chooseRoute(all, tried, random)) {
          expect(tried.has(next)).toBe(false);
          tried.add(next);
        }
        expect(tried.size).toBe(all.length);
        expect([...tried].map(({ account: { priority } }) => priority)).toEqual(
          all.map(({ account: { priority } }) => priority),
        );
      }),
    );
  });
});
