import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startSimulator } from "../../simulator/simulator.ts";
import { type ProcessResult, readProcessResult } from "../../test/support/process-result.ts";
import { readSettings } from "../config/installation/environment.ts";
import { type Installation, openInstallation } from "../config/installation/installation.ts";
import { findUserByEmail } from "../store/identity/users.ts";
import { readSetting, writeSetting } from "../store/settings/settings.ts";

const LAUNCHER = resolve(import.meta.dir, "../../bin/model-gateway");

// Every command is a separate process, and the machine may be busy.
setDefaultTimeout(120_000);

let folder: string;
let data: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-cli-"));
  data = join(folder, "data");
});

afterEach(() => rmSync(folder, { recursive: true }));

function run(
  args: string[],
  options: { env?: Record<string, string>; stdin?: string; command?: string; wrapper?: string[] } = {},
): Promise<ProcessResult> {
  const child = Bun.spawn([...(options.wrapper ?? []), options.command ?? LAUNCHER, ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "", ...options.env },
    stdin: new Blob([options.stdin ?? ""]),
    stdout: "pipe",
    stderr: "pipe",
  });
  return readProcessResult(child);
}

async function withStore<T>(work: (installation: Installation) => Promise<T>): Promise<T> {
  const result = readSettings({ flags: { data }, environment: {} });
  if (!result.ok) throw new Error(result.problems.join());
  const installation = await openInstallation(result.settings, {});
  try {
    return await work(installation);
  } finally {
    await installation.db.close();
  }
}

function file(text: string, name = "gateway.yaml"): string {
  writeFileSync(join(folder, name), text);
  return name;
}

const FILE = `
models: [{ id: fast, interfaces: [chat] }]
accounts: [{ name: sim, kind: simulator }]
groups: [{ name: default, models: [fast], accounts: [sim] }, { name: other }]
users: [{ email: ops@example.com, role: admin }]
keys: [{ name: ci, user: ops@example.com, group: default }]
`;

describe("the command line", () => {
  test("lists the commands if none is given", async () => {
    const { code, out } = await run([]);
    expect(code).toBe(0);
    for (const words of [
      "start",
      "apply FILE",
      "export",
      "keys create",
      "doctor",
      "simulate",
      "master-key rotate",
    ]) {
      expect(out).toContain(words);
    }
  });

  const WRONG: [args: string[], says: string][] = [
    [["aply", "x"], 'Unknown command "aply". Did you mean apply?'],
    [["keys"], "Commands: keys create, keys list, keys revoke."],
    [["keys", "creat"], "Commands: keys create, keys list, keys revoke."],
    [["apply"], "FILE is missing."],
    [["apply", "a", "b"], 'Unexpected argument "b".'],
    [["apply", "a", "--dryrun"], "Unknown option --dryrun. Did you mean --dry-run?"],
    [["apply", "a", "--prune=yes"], "--prune takes no value."],
    [["keys", "create", "--name"], "--name needs a value: --name NAME"],
    [["keys", "create", "--name", "x"], "--group GROUP is missing."],
    [["--frobnicate"], "Unknown option --frobnicate."],
  ];
  for (const [args, says] of WRONG) {
    test(`\`${args.join(" ")}\` exits with 2 and a message`, async () => {
      const { code, out, err } = await run(args);
      expect(code).toBe(2);
      expect(err).toContain(says);
      expect(err).not.toContain("    at ");
      expect(out).toBe("");
    });
  }

  test("every command has a help text", async () => {
    const commands = [
      "apply",
      "export",
      "keys create",
      "keys list",
      "keys revoke",
      "admin claim",
      "doctor",
      "simulate",
      "master-key rotate",
    ];
    for (const words of commands) {
      const { code, out } = await run([...words.split(" "), "--help"]);
      expect(code).toBe(0);
      expect(out).toContain(`Usage: npx model-gateway ${words}`);
    }
    const family = await run(["keys", "--help"]);
    expect(family.code).toBe(0);
    expect(family.out).toContain("Usage: npx model-gateway keys COMMAND [options]");
    expect(family.out).toContain("keys revoke PUBLIC_ID");
    expect(family.out).not.toContain("wallet");
    expect(existsSync(data)).toBe(false);
  });

  test("an invalid setting is reported with a message that does not contain a password", async () => {
    const { code, err } = await run(["keys", "list"], { env: { DATABASE_URL: "mysql://u:hunter2@h/d" } });
    expect(code).toBe(2);
    expect(err).toContain("DATABASE_URL must be");
    expect(err).not.toContain("hunter2");
  });

  test("a database that cannot be opened is reported with a message", async () => {
    writeFileSync(data, "not a folder");
    const { code, err } = await run(["keys", "list"]);
    expect(code).toBe(1);
    expect(err).toContain("cannot be opened");
    expect(err).not.toContain("    at ");
    const applied = await run(["apply", file(FILE)]);
    expect(applied).toMatchObject({ code: 1, err: expect.stringContaining("cannot be opened") });
  });
});

describe("an incomplete data folder", () => {
  const COMMANDS: string[][] = [
    ["audit"],
    ["backup", "copy.db"],
    ["export"],
    ["keys", "list"],
    ["prices", "list"],
    ["wallet", "show", "--user", "ada@example.com"],
    ["explain", "req_1"],
    ["admin", "claim", "--email", "ada@example.com"],
    ["master-key", "rotate"],
  ];
  for (const args of COMMANDS) {
    test(`is no installation for \`${args.join(" ")}\`, and is unchanged`, async () => {
      const { code, out, err } = await run([...args, "--data", "mistyped"]);
      expect(code).toBe(1);
      expect(out).toBe("");
      expect(err).toContain(`No installation exists in ${join(folder, "mistyped")}.`);
      expect(err).toContain("--data FOLDER");
      expect(readdirSync(folder)).toEqual([]);
    });
  }

  test("gets an installation from a valid file, with a message, and none from an invalid file", async () => {
    const refused = await run(["apply", file("groups: [{ name: g, models: [nope] }]")]);
    expect(refused.code).toBe(1);
    expect(existsSync(data)).toBe(false);
    const applied = await run(["apply", file(FILE)]);
    expect(applied).toMatchObject({ code: 0, err: `\nA new installation was created in ${data}.\n` });
    expect((await run(["apply", "gateway.yaml"])).err).toBe("");
  });

  test("is not touched by a start with an invalid port", async () => {
    const { code, err } = await run(["start", "--port", "abc"]);
    expect(code).toBe(2);
    expect(err).toContain("--port must be a port number");
    expect(existsSync(data)).toBe(false);
  });

  test.each(["keys list", "apply gateway.yaml", "start"])(
    "with only the master key missing, gets no new one from `%s`",
    async (command) => {
      await run(["apply", file(FILE)]);
      rmSync(join(data, "master.key"));
      const { code, err } = await run(command.split(" "));
      expect(code).toBe(1);
      expect(err).toContain(`The master key ${join(data, "master.key")} is missing.`);
      expect(existsSync(join(data, "master.key"))).toBe(false);
    },
  );
});

describe("the output", () => {
  const piped = (script: string) => run(["-c", script], { command: "bash", env: { GATEWAY: LAUNCHER } });

  test("can be cut off by its reader", async () => {
    const { code, out, err } = await piped('set -o pipefail; "$GATEWAY" schema | head -1');
    expect({ code, out, err }).toEqual({ code: 0, out: "{\n", err: "" });
  });

  test("contains the next command with shell quoting and the data folder", async () => {
    await run(["apply", file(FILE), "--data", "my things"]);
    const batch = ["--usd", "1", "--batch", "spring 20%"];
    const { err } = await run(["codes", "create", ...batch, "--data", "my things"]);
    expect(err).toContain("npx model-gateway codes void 'spring 20%' --data 'my things'");
  });

  test("that cannot be written is an error with a message", async () => {
    const { code, err } = await piped('"$GATEWAY" schema > /dev/full');
    expect(code).toBe(1);
    expect(err).toBe("model-gateway: the output could not be written (ENOSPC).\n");
  });
});

describe("apply and export", () => {
  test("apply shows the difference, applies it, and writes the secret of a new key to a private file", async () => {
    const name = file(FILE);
    const first = await run(["apply", name]);
    expect(first.code).toBe(0);
    expect(first.out).toContain("+ group default\n");
    expect(first.out).toContain("6 to create, 0 to change, 0 to remove.");
    const keys = join(data, "new-keys");
    expect(first.out).toContain(`1 new key in ${keys}, readable only by you.`);
    expect(readFileSync(keys, "utf8")).toMatch(/^ci {2}gwk_\w{8}_\w{49}\n$/);
    expect(statSync(keys).mode & 0o777).toBe(0o600);
    const second = await run(["apply", name]);
    expect(second.out).toBe("No changes: the installation matches the file.\n");
    expect(statSync(join(data, "master.key")).mode & 0o777).toBe(0o600);
  });

  test("a dry run writes nothing and shows no secret", async () => {
    const { out } = await run(["apply", file(FILE), "--dry-run"]);
    expect(out).toContain("no changes were written");
    expect(out).not.toContain("gwk_");
    expect(existsSync(data)).toBe(false);
    await run(["apply", file("users: [{ email: one@example.com }]\n")]);
    const files = readdirSync(data);
    const again = await run(["apply", file(FILE), "--dry-run"]);
    expect(again.out).toContain("+ group default\n");
    expect(readdirSync(data)).toEqual(files);
    expect((await run(["keys", "list", "--json"])).out).toBe("[]\n");
  });

  test("a wrong file is rejected with all its problems and exit code 1", async () => {
    const { code, err } = await run([
      "apply",
      file("server: { prot: 1 }\naccounts:\n  - name: a\n    kind: gemeni\n"),
    ]);
    expect(code).toBe(1);
    expect(err).toContain("gateway.yaml:1:11  server.prot: is not a known field. Did you mean port?");
    expect(err).toContain(
      'gateway.yaml:4:11  accounts[0].kind: "gemeni" is not allowed. Did you mean gemini?',
    );
    expect(err).toContain("2 problems in gateway.yaml. No changes were written.");
  });

  test("--json prints the same for programs", async () => {
    const { out } = await run(["apply", file(FILE), "--json"]);
    const result = JSON.parse(out);
    expect(result).toMatchObject({ applied: true });
    expect(result.changes).toHaveLength(6);
    expect(result.shown[0]).toMatchObject({ name: "ci", user: "ops@example.com", group: "default" });
    expect(JSON.stringify(result)).not.toContain("gwk_");
    expect(result.secret_file).toBe(join(data, "new-keys"));
  });

  test("--prune removes records that the file does not name", async () => {
    await run(["apply", file(FILE)]);
    const { out } = await run(["apply", file(FILE.replace(", { name: other }", "")), "--prune"]);
    expect(out).toContain("- group other");
  });

  test("the output of export can be applied and changes nothing", async () => {
    await run(["apply", file(FILE)]);
    const { out } = await run(["export"]);
    const again = await run(["apply", file(out, "exported.yaml"), "--prune"]);
    expect(again.out).toStartWith("No changes");
  });

  test("a missing file is reported with a message", async () => {
    const { code, err } = await run(["apply", "nowhere.yaml"]);
    expect(code).toBe(1);
    expect(err).toContain("The file nowhere.yaml does not exist.");
  });
});

describe("keys", () => {
  test("a key is created, listed and revoked", async () => {
    await run(["apply", file(FILE)]);
    const made = await run([
      "keys",
      "create",
      "--name",
      "laptop",
      "--group",
      "other",
      "--expires",
      "2035-01-31",
      "--print-secret",
      "--json",
    ]);
    const { secret, public_id: publicId } = JSON.parse(made.out);
    expect(secret).toStartWith(`gwk_${publicId}_`);

    const listed = await run(["keys", "list"]);
    const [header, ...rows] = listed.out.trimEnd().split("\n");
    expect(header).toMatch(/^PUBLIC ID {2}NAME/);
    expect(rows.find((row) => row.startsWith(publicId))).toMatch(/laptop +- +other +active +2035-01-31/);
    expect(listed.out).not.toContain(secret);

    expect((await run(["keys", "revoke", publicId])).out).toContain('Key "laptop"');
    expect((await run(["keys", "revoke", publicId])).out).toContain("was already revoked");
    expect((await run(["keys", "list"])).out).not.toContain(publicId);
    expect((await run(["keys", "list", "--all"])).out).toMatch(new RegExp(`${publicId} .* revoked`));
  });

  test("a key can be created with limits, which the list shows", async () => {
    await run(["apply", file(FILE)]);
    const create = ["keys", "create", "--name", "slow", "--group", "other"];
    const made = await run([...create, "--rpm", "60", "--concurrency", "5", "--json"]);
    expect(JSON.parse(made.out).limits).toEqual({ concurrency: 5, rpm: 60 });
    const { out } = await run(["keys", "list"]);
    expect(out).toMatch(/slow .*concurrency 5, rpm 60$/m);
    expect(out).toMatch(/ci .* -$/m);
    const listed = JSON.parse((await run(["keys", "list", "--json"])).out);
    expect(listed.map(({ limits }: { limits: unknown }) => limits)).toEqual([
      null,
      { concurrency: 5, rpm: 60 },
    ]);
    const wrong = await run([...create, "--tpm", "lots"]);
    expect(wrong).toMatchObject({ code: 2 });
    expect(wrong.err).toContain("--tpm must be a whole number, 1 or more.");
  });

  test("an unknown name is reported with the known names", async () => {
    await run(["apply", file(FILE)]);
    const group = await run(["keys", "create", "--name", "x", "--group", "nope"]);
    expect(group).toMatchObject({
      code: 1,
      err: 'model-gateway: Group "nope" does not exist.\nGroups: default, other\n',
    });
    const user = await run([
      "keys",
      "create",
      "--name",
      "x",
      "--group",
      "other",
      "--user",
      "who@example.com",
    ]);
    expect(user.err).toContain('User "who@example.com" does not exist.');
    const twice = await run([
      "keys",
      "create",
      "--name",
      "ci",
      "--group",
      "other",
      "--user",
      "OPS@example.com",
    ]);
    expect(twice.err).toContain('A key "ci" of ops@example.com already exists.');
  });

  test("a secret passed as a public id is not shown", async () => {
    await run(["apply", file(FILE)]);
    const { code, err } = await run(["keys", "revoke", "gwk_pasted-by-mistake"]);
    expect(code).toBe(1);
    expect(err).toContain("No key has this public id.");
    expect(err).not.toContain("pasted-by-mistake");
  });
});

describe("admin claim", () => {
  const PASSWORD = "a long enough password";
  const claim = (email = "boss@example.com") =>
    run(["admin", "claim", "--email", email, "--password-stdin"], { stdin: `${PASSWORD}\n` });

  async function leaveToken(expiresAtMs: number, token = "one-time-token"): Promise<void> {
    await withStore(async ({ db, settings }) => {
      const digest = createHash("sha256").update("one-time-token").digest("hex");
      await writeSetting(db, "admin_claim", JSON.stringify({ digest, expiresAtMs }));
      writeFileSync(settings.adminTokenFile, `${token}\n`, { mode: 0o600 });
    });
  }

  test("the token creates an administrator, once", async () => {
    await leaveToken(Date.now() + 60_000);
    expect(await claim()).toMatchObject({ code: 0 });
    await withStore(async ({ db, settings }) => {
      const user = await findUserByEmail(db, "boss@example.com");
      expect(user?.role).toBe("admin");
      expect(await Bun.password.verify(PASSWORD, user?.passwordHash ?? "")).toBe(true);
      expect(existsSync(settings.adminTokenFile)).toBe(false);
      expect(await readSetting(db, "admin_claim")).toBeNull();
    });
    const again = await claim("other@example.com");
    expect(again.code).toBe(1);
    expect(again.err).toContain("An administrator already exists: boss@example.com.");
  });

  test("an expired token is rejected", async () => {
    await leaveToken(Date.now() - 1);
    expect(await claim()).toMatchObject({ code: 1, err: expect.stringContaining("The token has expired.") });
  });

  test("a token of another installation is rejected and not shown", async () => {
    await leaveToken(Date.now() + 60_000, "some-other-token");
    const { err } = await claim();
    expect(err).toContain("does not belong to this installation");
    expect(err).not.toContain("some-other-token");
  });

  test("without a token, the error explains how to get one", async () => {
    await run(["apply", file(FILE)]);
    expect((await claim()).err).toContain("Start the gateway first");
  });

  test("a short password is rejected and does not use up the token", async () => {
    await leaveToken(Date.now() + 60_000);
    const { err } = await run(["admin", "claim", "--email", "a@b.c", "--password-stdin"], { stdin: "short" });
    expect(err).toContain("12 to 256 characters");
    expect(await claim()).toMatchObject({ code: 0 });
  });
});

describe("doctor", () => {
  test("on an empty folder, changes nothing and finds nothing broken", async () => {
    const { code, out } = await run(["doctor"]);
    expect(code).toBe(0);
    expect(out).toContain("the database does not exist yet");
    expect(out).toContain(`No installation exists in ${data}`);
    expect(out).toEndWith("No errors found, but there is no installation to check.\n");
    expect(existsSync(data)).toBe(false);
  });

  test.if(process.getuid?.() === 0 && Bun.which("setpriv") !== null)(
    "as a user without access to the folder, names the folder and what to do",
    async () => {
      await run(["apply", file(FILE)]);
      const { code, out, err } = await run(["doctor"], {
        wrapper: ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
      });
      expect([code, err]).toEqual([1, ""]);
      expect(out).toContain("Run the command as the owner of the folder, or as root.");
    },
  );

  test("reports for each account what is wrong and what to do", async () => {
    const simulator = startSimulator({ credential: "right" });
    try {
      const account = (name: string, rest: string) =>
        `  - { name: ${name}, kind: openai, models: { fast: x }, ${rest} }\n`;
      const url = `base_url: "${simulator.url}"`;
      const text = `
models: [{ id: fast, interfaces: [chat] }, { id: unmapped, interfaces: [chat] }]
accounts:
${account("well", `${url}, private_network: true, credential: right`)}${account("wrong-key", `${url}, private_network: true, credential: wrong`)}${account("walled", `${url}, credential: right`)}${account("down", 'base_url: "http://127.0.0.1:1/v1", private_network: true')}${account("off", 'base_url: "http://127.0.0.1:1/v1", enabled: false')}
groups: [{ name: default, models: [fast, unmapped], accounts: [well] }]
`;
      expect((await run(["apply", file(text)])).code).toBe(0);
      const { code, out } = await run(["doctor", "--json"]);
      expect(code).toBe(1);
      const findings: { what: string; state: string; message: string; todo: string | null }[] =
        JSON.parse(out).findings;
      const about = (what: string) => findings.find((finding) => finding.what === what);
      expect(about("account well")?.state).toBe("good");
      expect(about("account wrong-key")).toMatchObject({
        state: "broken",
        message: "rejected the credential (401)",
      });
      expect(about("account walled")).toMatchObject({
        state: "broken",
        todo: expect.stringContaining("private_network: true"),
      });
      expect(about("account down")).toMatchObject({ state: "broken", message: "cannot be connected to" });
      expect(about("account off")?.message).toBe("is disabled and was not checked");
      expect(about("group default")).toMatchObject({
        state: "broken",
        message: "publishes unmapped, but no account of the group maps it",
      });
      expect(out).not.toContain('"right"');
    } finally {
      await simulator.stop();
    }
  });

  test("checks a configuration file against the installation", async () => {
    await run(["apply", file(FILE)]);
    const good = await run(["doctor", "--config", file("keys: [{ name: k, group: default }]", "more.yaml")]);
    expect(good).toMatchObject({ code: 0, out: expect.stringContaining("more.yaml is valid") });
    const bad = await run(["doctor", "--config", file("keys: [{ name: k, group: deflaut }]", "bad.yaml")]);
    expect(bad.code).toBe(1);
    expect(bad.out).toContain(
      'bad.yaml:1:26  keys[0].group: the group "deflaut" does not exist. Did you mean "default"?',
    );
  });

  test("open registration with a free group for everyone is doubtful, not broken", async () => {
    const groups = (access: string) =>
      `groups: [{ name: default, models: [fast], accounts: [sim], access: ${access} }]`;
    const open = `registration: open
models: [{ id: fast, interfaces: [chat] }]
accounts: [{ name: sim, kind: simulator }]
`;
    await run(["apply", file(open + groups("everyone"))]);
    const doubted = await run(["doctor"]);
    expect(doubted.code).toBe(0);
    expect(doubted.out).toContain("is free and open to everyone, and registration is open");
    await run(["apply", file(open + groups("members"))]);
    expect((await run(["doctor"])).out).not.toContain("open to everyone");
  });

  test("an administrator without a password is doubtful, with the command that helps", async () => {
    await run(["apply", file(FILE)]);
    const before = await run(["doctor", "--data", data]);
    expect(before.code).toBe(0);
    expect(before.out).toContain("ops@example.com has no password");
    expect(before.out).toContain(
      `npx model-gateway admin link --email ops@example.com --for reset --data ${data}`,
    );
    const password = "password: a long enough password";
    await run(["apply", file(FILE.replace("role: admin", `role: admin, ${password}`))]);
    expect((await run(["doctor"])).out).toContain("administrator: can sign in");
  });

  test("a lost master key is broken, and no new one is created", async () => {
    await run(["apply", file(FILE)]);
    const masterKey = join(data, "master.key");
    const other = join(folder, "other");
    await run(["apply", "gateway.yaml", "--data", other]);
    copyFileSync(join(other, "master.key"), masterKey);
    const { code, out } = await run(["doctor"]);
    expect(code).toBe(1);
    expect(out).toContain("encrypted with another master key");
    rmSync(masterKey);
    const missing = await run(["doctor"]);
    expect(missing.code).toBe(1);
    expect(missing.out).toContain(`${masterKey} is missing, and the database has secrets encrypted with it`);
    expect(existsSync(masterKey)).toBe(false);
  });
});

describe("master-key rotate", () => {
  test("the new key alone unseals all secrets", async () => {
    const credential = "sk-canary-credential";
    const text =
      "accounts: [{ name: up, kind: openai, base_url: 'https://up.example', credential: sk-canary-credential }]";
    await run(["apply", file(text)]);
    const before = readFileSync(join(data, "master.key"), "utf8");
    const { code, out } = await run(["master-key", "rotate", "--drop-old"]);
    expect(code).toBe(0);
    expect(out).toContain("2 secrets encrypted");
    const after = readFileSync(join(data, "master.key"), "utf8");
    expect(after).not.toContain(before.trim());
    expect((await run(["apply", "gateway.yaml"])).out).toStartWith("No changes");
    expect(out).not.toContain(credential);
  });

  test("without --drop-old, the old key is kept for backups", async () => {
    await run(["apply", file(FILE)]);
    const before = readFileSync(join(data, "master.key"), "utf8");
    await run(["master-key", "rotate"]);
    expect(readFileSync(join(data, "master.key"), "utf8")).toContain(before.trim());
  });
});

describe("simulate", () => {
  test("prints an address that responds, and stops on a signal", async () => {
    const child = Bun.spawn([LAUNCHER, "simulate", "--port", "0"], {
      cwd: folder,
      stdout: "pipe",
      stderr: "pipe",
    });
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of child.stdout) {
      text += decoder.decode(chunk, { stream: true });
      if (text.includes("Ctrl+C")) break;
    }
    const url = /listens on (\S+)/.exec(text)?.[1] ?? "";
    expect((await fetch(`${url}/models`)).status).toBe(200);
    child.kill("SIGTERM");
    expect(await child.exited).toBe(0);
  });
});

describe("the launcher", () => {
  test("resolves its own location through absolute and relative symlinks", async () => {
    symlinkSync(LAUNCHER, join(folder, "first"));
    mkdirSync(join(folder, "bin"));
    symlinkSync("../first", join(folder, "bin", "second"));
    const { code, out } = await run(["--version"], { command: join(folder, "bin", "second") });
    expect(code).toBe(0);
    expect(out).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test("prints what to do when its runtime is not installed", async () => {
    mkdirSync(join(folder, "bin"));
    const lonely = join(folder, "bin", "model-gateway");
    copyFileSync(LAUNCHER, lonely);
    const { code, err } = await run(["--version"], { command: lonely });
    expect(code).toBe(1);
    expect(err).toContain("Run `npm ci`");
  });
});
