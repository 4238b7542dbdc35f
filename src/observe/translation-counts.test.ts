import { expect, test } from "bun:test";
import { TranslationCounts } from "./translation-counts.ts";

test("requests are counted by both dialects, and dropped fields without their positions", () => {
  const counts = new TranslationCounts();
  counts.add("responses", "chat", ["tools[0].web_search", "strict"]);
  counts.add("responses", "chat", ["tools[3].web_search"]);
  counts.add("chat", "responses", []);
  expect(counts.series).toEqual([
    { client: "responses", upstream: "chat", requests: 2 },
    { client: "chat", upstream: "responses", requests: 1 },
  ]);
  expect([...counts.droppedFields]).toEqual([
    ["tools.web_search", 2],
    ["strict", 1],
  ]);
});

test("clients cannot add any number of series", () => {
  const counts = new TranslationCounts();
  for (let i = 0; i < 1_000; i++) counts.add("chat", "responses", [`field_${i}`]);
  expect(counts.droppedFields.size).toBe(101);
  expect(counts.droppedFields.get("other")).toBe(900);
});
