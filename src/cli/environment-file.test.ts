import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnvironmentFile, readEnvironmentFile } from "./environment-file.ts";

test("an environment file is read as systemd reads it", () => {
  const text = [
    "# a comment",
    "; another",
    "",
    "A=1",
    " B = two words ",
    "C=p#w;d$x",
    'D="q \\" q"',
    "E='x'",
    "F=",
  ];
  expect(parseEnvironmentFile(text.join("\n"))).toEqual({
    A: "1",
    B: "two words",
    C: "p#w;d$x",
    D: 'q " q',
    E: "x",
    F: "",
  });
});

test("variables of the file take precedence, and a missing file is an error", () => {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-environment-"));
  const path = join(folder, "environment");
  const environment = { MODEL_GATEWAY_ENVIRONMENT_FILE: path, A: "before", B: "b" };
  try {
    expect(() => readEnvironmentFile(environment)).toThrow("cannot be read");
    writeFileSync(path, "A=now\n");
    expect(readEnvironmentFile(environment)).toMatchObject({ A: "now", B: "b" });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
