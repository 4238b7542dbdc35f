import { expect, test } from "bun:test";
import { readParams } from "./location.ts";

test("a name in an address is decoded exactly once", () => {
  for (const name of ["plain", "a/b?c#d %41", "%41cc", "100%", "%2F", "世界"]) {
    expect(readParams({ name: encodeURIComponent(name), none: undefined })).toEqual({
      name,
      none: undefined,
    });
  }
});

test("an invalid percent escape is kept unchanged", () => {
  expect(readParams({ name: "50%" })).toEqual({ name: "50%" });
});
