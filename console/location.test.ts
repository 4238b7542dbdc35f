import { expect, test } from "bun:test";
import { readParams } from "./location.ts";

test("a name is read from an address once, whatever it is made of", () => {
  for (const name of ["plain", "a/b?c#d %41", "%41cc", "100%", "%2F", "世界"]) {
    expect(readParams({ name: encodeURIComponent(name), none: undefined })).toEqual({
      name,
      none: undefined,
    });
  }
});

test("a percent sign that escapes nothing is taken as it stands", () => {
  expect(readParams({ name: "50%" })).toEqual({ name: "50%" });
});
