/** Secrets that come from files. */

import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openCommandLine } from "./command-line.test-support.ts";
import { readNamedFiles, readVariableFiles } from "./secret-files.ts";

const cli = openCommandLine();

const FILE = `models:
  - id: fast
    interfaces: [chat]
accounts:
  - name: up
    kind: openai
    base_url: https://up.example/v1
    credential: \${file:upstream}
    models: { fast: fast }
`;

test("a file named in a configuration is read beside the configuration file, and its value is never shown", async () => {
  writeFileSync(join(cli.folder(), "gateway.yaml"), FILE);
  expect(await cli.runFailing("apply", "gateway.yaml")).toContain("requires the file upstream");
  writeFileSync(join(cli.folder(), "upstream"), "sk-secret-of-the-upstream\n");
  expect(await cli.runOk("apply", "gateway.yaml")).not.toContain("sk-secret");
  expect(await cli.runOk("doctor", "--config", "gateway.yaml").catch(String)).not.toContain("sk-secret");
});

test("a relative name is in the credentials folder of systemd", () => {
  const folder = join(cli.folder(), "credentials");
  mkdirSync(folder);
  writeFileSync(join(folder, "one"), "first\r\n");
  writeFileSync(join(cli.folder(), "two"), "second");
  const text = `a: \${file:one}\nb: \${file:${join(cli.folder(), "two")}}\nc: $\${file:three}\nd: \${file:missing}`;
  const environment = { CREDENTIALS_DIRECTORY: folder };
  expect(readNamedFiles(text, { fileName: "gateway.yaml", environment })).toEqual({
    "file:one": "first",
    [`file:${join(cli.folder(), "two")}`]: "second",
  });
});

test("a file that is empty, a folder or longer than 64 KiB is not a secret", () => {
  writeFileSync(join(cli.folder(), "empty"), "\n");
  writeFileSync(join(cli.folder(), "long"), "x".repeat(64 * 1024 + 1));
  const fileName = join(cli.folder(), "gateway.yaml");
  const text = ["empty", "long", ".", "/dev/null"].map((path) => `\${file:${path}}`).join(" ");
  expect(readNamedFiles(text, { fileName, environment: {} })).toEqual({});
});

test("DATABASE_URL_FILE and MODEL_GATEWAY_MASTER_KEY_FILE name files; the variables themselves take precedence", () => {
  const file = join(cli.folder(), "url");
  writeFileSync(file, "postgres://u:p@h/d\n");
  expect(readVariableFiles({ DATABASE_URL_FILE: file }).DATABASE_URL).toBe("postgres://u:p@h/d");
  expect(readVariableFiles({ DATABASE_URL_FILE: file, DATABASE_URL: "sqlite:x" }).DATABASE_URL).toBe(
    "sqlite:x",
  );
  expect(() => readVariableFiles({ DATABASE_URL_FILE: `${file}.not` })).toThrow(
    "DATABASE_URL_FILE cannot be read",
  );
});
