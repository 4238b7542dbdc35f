import { expect, test } from "bun:test";
import { type StartupFacts, startupText } from "./startup-text.ts";

const same = (text: string) => text;
const facts: StartupFacts = {
  version: "1.2.3",
  hasConsole: true,
  url: "http://127.0.0.1:8787",
  publicUrl: null,
  readyMs: 12,
  store: "SQLite in /data",
  keys: 1,
  groups: 2,
  demoKeyFile: null,
  claim: null,
  made: { kind: "shown", keys: [] },
  data: undefined,
  paint: { bold: same, dim: same, red: same, green: same, yellow: same },
};

test("contains the addresses of the API and the console", () => {
  const text = startupText(facts);
  expect(text).toContain("http://127.0.0.1:8787/v1");
  expect(text).toContain("http://127.0.0.1:8787/console/");
  expect(text).not.toContain("administrator");
  expect(text).not.toContain("Public");
});

test("a console that is not built has no link, and the administrator is created by a command", () => {
  const claim = { file: "/data/admin-token", link: "http://127.0.0.1:8787/console/claim#secret" };
  const text = startupText({ ...facts, hasConsole: false, claim });
  expect(text).not.toContain("/console/");
  expect(text).not.toContain("admin-token");
  expect(text).toContain("not built: run npm run build");
  expect(text).toContain("admin claim --email you@example.com");
});

test("a public URL is shown next to the listen address, which the curl example uses", () => {
  const text = startupText({ ...facts, publicUrl: "https://gw.example", demoKeyFile: "/data/demo.key" });
  expect(text).toContain("Public   https://gw.example\n");
  expect(text).toContain("http://127.0.0.1:8787/console/");
  expect(text).toContain("curl http://127.0.0.1:8787/v1/chat/completions");
});

test("at a terminal, the link for the first administrator is shown", () => {
  const link = "http://127.0.0.1:8787/console/claim#secret";
  expect(startupText({ ...facts, claim: { file: "/data/admin-token", link } })).toContain(`Open ${link}\n`);
  const elsewhere = startupText({
    ...facts,
    publicUrl: "https://gw.example",
    claim: { file: "/data/admin-token", link },
  });
  expect(elsewhere).toContain(
    `Open ${link}\n    (from other machines, the same path under https://gw.example)\n`,
  );
});

test("the command for the first administrator contains the data folder", () => {
  const claim = { file: "/data/admin-token", link: null };
  const claiming = "npx model-gateway admin claim --email you@example.com";
  expect(startupText({ ...facts, claim })).toContain(`${claiming}\n`);
  const elsewhere = startupText({ ...facts, claim, data: "/var/lib/my gateway" });
  expect(elsewhere).toContain(`${claiming} --data '/var/lib/my gateway'\n`);
});

test("new keys are shown, or stored in a file that is named", () => {
  const keys = [{ name: "ci", secret: "gwk_secret" }];
  expect(startupText({ ...facts, made: { kind: "shown", keys } })).toContain(
    "Key ci, shown only once:\n    gwk_secret",
  );
  const kept = startupText({ ...facts, made: { kind: "kept", count: 2, file: "/data/new-keys" } });
  expect(kept).toContain("2 new keys in /data/new-keys, readable only by you");
});

test("a log contains the name of the token file only", () => {
  const text = startupText({ ...facts, claim: { file: "/data/admin-token", link: null } });
  expect(text).toContain("Open the link in /data/admin-token, readable only by you");
  expect(text).toContain("admin claim --email you@example.com");
  expect(text).not.toContain("#");
});
