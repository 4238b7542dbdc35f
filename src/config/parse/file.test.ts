import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { formatProblem, type Problem } from "../state/problem.ts";
import { parseGatewayFile } from "./file.ts";

const ENVIRONMENT = { UPSTREAM_KEY: "upstream-key-value", GROUP_NAME: "staff" };

function findProblems(text: string, environment: Record<string, string> = ENVIRONMENT): Problem[] {
  const parsed = parseGatewayFile(text, { fileName: "gateway.yaml", environment });
  return parsed.ok ? [] : parsed.problems;
}

function parseValid(text: string, environment: Record<string, string> = ENVIRONMENT) {
  const parsed = parseGatewayFile(text, { fileName: "gateway.yaml", environment });
  if (!parsed.ok) throw new Error(parsed.problems.map(formatProblem).join("\n"));
  return parsed.file;
}

const ACCOUNT = "accounts:\n  - name: a\n    kind: openai\n    base_url: https://up.example/v1\n";

describe("defaults", () => {
  test("an account leaves its interfaces to its kind, maps names to themselves, and has priority and weight 1", () => {
    expect(parseValid(ACCOUNT).accounts[0]).toMatchObject({
      models: { "*": "*" },
      priority: 1,
      weight: 1,
      enabled: true,
      private_network: false,
    });
  });

  test("a group does not charge, and its charge decides about on_disconnect", () => {
    const group = parseValid("groups:\n  - name: g").groups[0];
    expect(group).toMatchObject({ models: [], accounts: [] });
    expect(group?.billing).toBeUndefined();
    expect(group?.on_disconnect).toBeUndefined();
  });

  test("an empty queue section allows 100 waiting requests and a timeout of 30 seconds", () => {
    expect(parseValid("groups: [{ name: g, queue: {} }]").groups[0]?.queue).toEqual({
      max_waiting: 100,
      timeout: 30_000,
    });
  });

  test("a file with comments only names nothing", () => {
    expect(parseValid("# nothing yet\n")).toMatchObject({
      models: [],
      accounts: [],
      groups: [],
      users: [],
      keys: [],
    });
  });
});

describe("values", () => {
  test(`\${NAME} is replaced from the environment, also inside a longer text`, () => {
    const account = parseValid(`${ACCOUNT}    credential: "pre-\${UPSTREAM_KEY}"\n`).accounts[0];
    expect(account?.credential).toBe("pre-upstream-key-value");
  });

  test(`$\${ is a literal \${`, () => {
    expect(parseValid(`${ACCOUNT}    credential: a$\${b}\n`).accounts[0]?.credential).toBe(`a\${b}`);
  });

  test("a port can come from the environment, where every value is text", () => {
    expect(parseValid(`server:\n  port: \${PORT}`, { PORT: "9000" }).server.port).toBe(9000);
  });

  test("a base URL loses its trailing slash", () => {
    const file = parseValid("accounts: [{ name: a, kind: openai, base_url: 'https://up.example/v1/' }]");
    expect(file.accounts[0]?.base_url).toBe("https://up.example/v1");
  });

  test("a base URL can have an internationalized host name and an encoded path", () => {
    for (const url of ["https://höher.example/v1", "https://up.example:8443/a%20b/~x/v1", "http://[::1]:9"]) {
      const file = parseValid(JSON.stringify({ accounts: [{ name: "a", kind: "openai", base_url: url }] }));
      expect(file.accounts[0]?.base_url).toBe(url);
    }
  });

  test("a key that expires on a date is valid to the end of that day in UTC", () => {
    const file = parseValid("groups: [{ name: g }]\nkeys: [{ name: k, group: g, expires: 2030-02-28 }]");
    expect(file.keys[0]?.expires).toBe(Date.UTC(2030, 1, 28, 23, 59, 59, 999));
  });

  test("an anchor can be reused", () => {
    const file = parseValid(
      "models:\n  - id: a\n    interfaces: &all [chat, responses]\n  - id: b\n    interfaces: *all\n",
    );
    expect(file.models[1]?.interfaces).toEqual(["chat", "responses"]);
  });

  test("a file can refer to records in the database", () => {
    const known = {
      models: new Set(["m"]),
      accounts: new Set(["a"]),
      request_policies: new Set<string>(),
      groups: new Set<string>(),
      plans: new Set<string>(),
      users: new Set<string>(),
    };
    const text = "groups: [{ name: g, models: [m], accounts: [a] }]";
    expect(parseGatewayFile(text, { fileName: "f", environment: {}, known }).ok).toBe(true);
  });
});

/** Invalid file → line, field, and a part of the message. */
const BAD: [what: string, text: string, line: number, field: string, says: string][] = [
  [
    "an unknown field",
    "server:\n  prot: 1",
    2,
    "server.prot",
    "Did you mean port? Allowed here: host, port, public_url, allowed_origins, allowed_hosts, large_bodies_mib, drain_delay, processes, on_coordinator_loss.",
  ],
  ["an unknown section", "modles: []", 1, "modles", "Did you mean models?"],
  [
    "an origin with a path",
    "server:\n  allowed_origins: [https://app.example.com/x]",
    2,
    "server.allowed_origins[0]",
    "an origin like https://app.example.com",
  ],
  [
    "a host with a port",
    "server:\n  allowed_hosts: ['gateway.lan:8787']",
    2,
    "server.allowed_hosts[0]",
    "a host name like gateway.lan",
  ],
  [
    "an invalid word",
    `${ACCOUNT}    interfaces: [chatt]`,
    5,
    "accounts[0].interfaces[0]",
    '"chatt" is not allowed. Did you mean chat? Allowed: chat, responses, messages, gemini, embeddings, images.',
  ],
  [
    "an unknown kind",
    "accounts:\n  - name: a\n    kind: cohere\n",
    3,
    "accounts[0].kind",
    "Allowed: openai, azure, anthropic, bedrock, gemini, vertex, simulator.",
  ],
  ["a missing name", "groups:\n  - models: []", 2, "groups[0].name", "is missing."],
  [
    "a missing base_url",
    "accounts:\n  - name: a\n    kind: openai",
    2,
    "accounts[0].base_url",
    "is missing.",
  ],
  ["a section without content", "models:\n", 1, "models", "is empty. Remove the field, or set it to a list."],
  ["a map instead of a list", "models: { id: x }", 1, "models", "must be a list."],
  [
    "a price as a number",
    "models:\n  - id: m\n    interfaces: [chat]\n    price: { input: 0.15 }",
    4,
    "models[0].price.input",
    "Write it as a string",
  ],
  [
    "a negative price",
    'models: [{ id: m, interfaces: [chat], price: { input: "-1" } }]',
    1,
    "models[0].price.input",
    "non-negative",
  ],
  [
    "a multiplier as a number",
    "groups:\n  - name: g\n    billing:\n      multiplier: 1.5",
    4,
    "groups[0].billing.multiplier",
    "Write it as a string",
  ],
  [
    "a balance as a number",
    "users:\n  - email: a@b.c\n    balance: 10.00",
    3,
    "users[0].balance",
    "Write it as a string",
  ],
  ["a name as a number", "groups:\n  - name: 7", 2, "groups[0].name", "Write it as a string"],
  ["a boolean as text", `${ACCOUNT}    enabled: "yes"`, 5, "accounts[0].enabled", "must be true or false."],
  ["a port out of range", "server:\n  port: 70000", 2, "server.port", "a whole number from 0 to 65535"],
  [
    "an invalid duration",
    "groups:\n  - name: g\n    queue: { max_waiting: 1, timeout: 30 }",
    3,
    "groups[0].queue.timeout",
    "a duration like 30s, at most 1h",
  ],
  [
    "a queue timeout above the maximum",
    "groups:\n  - name: g\n    queue: { timeout: 2h }",
    3,
    "groups[0].queue.timeout",
    "at most 1h",
  ],
  [
    "a limit of zero",
    "groups:\n  - name: g\n    limits: { rpm: 0 }",
    3,
    "groups[0].limits.rpm",
    "a whole number, 1 or more",
  ],
  [
    "a limit that is not an integer",
    `${ACCOUNT}    limits: { concurrency: 1.5 }`,
    5,
    "accounts[0].limits.concurrency",
    "a whole number, 1 or more",
  ],
  [
    "a window for an account",
    `${ACCOUNT}    limits: { windows: [] }`,
    5,
    "accounts[0].limits.windows",
    "Allowed here: concurrency, rpm, tpm.",
  ],
  [
    "a window of an unsupported length",
    "users:\n  - email: a@b.c\n    limits:\n      windows: [{ per: 2d, requests: 1 }]",
    4,
    "users[0].limits.windows[0].per",
    "Allowed: 5h, 1d, 7d, 30d.",
  ],
  [
    "a window without a limit",
    "groups:\n  - name: g\n    group_limits:\n      windows:\n        - per: 5h",
    5,
    "groups[0].group_limits.windows[0]",
    "must be a window with requests, tokens, usd or several of them.",
  ],
  ...["0.00", "9000000.000000001", "-1", "1e3", "5.0000000001"].map(
    (usd): [string, string, number, string, string] => [
      `a window of ${usd} USD`,
      `users:\n  - email: a@b.c\n    limits:\n      windows: [{ per: 5h, usd: "${usd}" }]`,
      4,
      "users[0].limits.windows[0].usd",
      'an amount in USD like "5.00", above 0 and at most 9000000, with at most 9 decimals',
    ],
  ),
  [
    "two windows of one length",
    "groups:\n  - name: g\n    limits:\n      windows: [{ per: 1d, requests: 1 }, { per: 1d, tokens: 1 }]",
    4,
    "groups[0].limits.windows",
    "one entry per length",
  ],
  [
    "userinfo in a URL",
    "accounts:\n  - name: a\n    kind: openai\n    base_url: https://u:p@x.example",
    4,
    "accounts[0].base_url",
    "without user, password",
  ],
  [
    "an unsupported scheme",
    "accounts:\n  - name: a\n    kind: openai\n    base_url: file:///etc/passwd",
    4,
    "accounts[0].base_url",
    "http:// or https://",
  ],
  [
    "a space in a URL",
    "accounts:\n  - name: a\n    kind: openai\n    base_url: https://x.example/a b/v1",
    4,
    "accounts[0].base_url",
    "ASCII without spaces",
  ],
  [
    "characters in a URL that HTTP does not allow",
    "accounts:\n  - name: a\n    kind: openai\n    base_url: https://x.example/é/v1",
    4,
    "accounts[0].base_url",
    "ASCII without spaces",
  ],
  [
    "an invalid Azure version",
    "accounts:\n  - name: a\n    kind: azure\n    base_url: https://x.example\n    api_version: newest",
    5,
    "accounts[0].api_version",
    "or one of v1, preview, latest",
  ],
  [
    "Latin-1 decoded as UTF-8",
    Buffer.from("groups:\n  - name: B\xfcro", "latin1").toString(),
    2,
    "",
    "not valid UTF-8",
  ],
  [
    "UTF-16 decoded as UTF-8",
    Buffer.from("\ufeffgroups: []", "utf16le").toString(),
    1,
    "",
    "not valid UTF-8",
  ],
  [
    "a base_url for the simulator",
    "accounts:\n  - name: a\n    kind: simulator\n    base_url: http://x.example",
    4,
    "accounts[0].base_url",
    "not allowed for kind simulator",
  ],
  [
    "an api_version without azure",
    `${ACCOUNT}    api_version: preview`,
    5,
    "accounts[0].api_version",
    "only for kind azure",
  ],
  [
    "websocket for an account without responses",
    `${ACCOUNT}    interfaces: [chat]\n    websocket: true`,
    6,
    "accounts[0].websocket",
    "requires responses",
  ],
  [
    "a wildcard in the middle",
    `${ACCOUNT}    models: { "a*b": c }`,
    5,
    'accounts[0].models["a*b"]',
    "a single * as its last character",
  ],
  [
    "a wildcard on one side only",
    `${ACCOUNT}    models:\n      "gpt-*": gpt`,
    6,
    'accounts[0].models["gpt-*"]',
    "on one side only",
  ],
  [
    "a wildcard in a public model",
    'models: [{ id: "gpt-*", interfaces: [chat] }]',
    1,
    "models[0].id",
    "without spaces or *",
  ],
  [
    "an unknown model",
    "models:\n  - { id: fast, interfaces: [chat] }\ngroups:\n  - name: g\n    models: [fats]",
    5,
    "groups[0].models[0]",
    'the model "fats" does not exist. Did you mean "fast"?',
  ],
  [
    "an unknown account",
    `${ACCOUNT}groups:\n  - name: g\n    accounts: [zebra]`,
    7,
    "groups[0].accounts[0]",
    'the account "zebra" does not exist. Known: a.',
  ],
  [
    "an unknown group",
    "keys:\n  - name: k\n    group: g",
    3,
    "keys[0].group",
    'the group "g" does not exist. Add it to groups.',
  ],
  [
    "an unknown user",
    "groups: [{ name: g }]\nkeys:\n  - name: k\n    group: g\n    user: a@b.c",
    5,
    "keys[0].user",
    "does not exist",
  ],
  [
    "a reference from the environment",
    `keys:\n  - name: k\n    group: \${GROUP_NAME}`,
    3,
    "keys[0].group",
    `the group from \${GROUP_NAME} does not exist.`,
  ],
  [
    "a repeated entry in a list",
    `${ACCOUNT}groups:\n  - name: g\n    accounts: [a, a]`,
    7,
    "groups[0].accounts[1]",
    "twice",
  ],
  [
    "two accounts of one name",
    `${ACCOUNT}  - name: a\n    kind: simulator`,
    5,
    "accounts[1].name",
    "is used twice",
  ],
  [
    "two users that differ in case",
    "users:\n  - email: a@b.c\n  - email: A@B.C",
    3,
    "users[1].email",
    "is used twice",
  ],
  [
    "two keys of one user and name",
    "groups: [{ name: g }]\nkeys:\n  - { name: k, group: g }\n  - { name: k, group: g }",
    4,
    "keys[1].name",
    "is used twice",
  ],
  [
    "a multiplier for a model outside the group",
    'groups:\n  - name: g\n    models: []\n    billing: { model_multipliers: { m: "2" } }',
    4,
    "groups[0].billing.model_multipliers.m",
    "not among the group's models",
  ],
  [
    "a short secret",
    "groups: [{ name: g }]\nkeys:\n  - name: k\n    group: g\n    secret: short",
    5,
    "keys[0].secret",
    "a secret of 32 to",
  ],
  [
    "a short password",
    "users:\n  - email: a@b.c\n    password: short",
    3,
    "users[0].password",
    "a string of 12 to 256 characters",
  ],
  ["an invalid e-mail address", "users:\n  - email: someone", 2, "users[0].email", "an e-mail address"],
  [
    "a date that does not exist",
    "groups: [{ name: g }]\nkeys:\n  - name: k\n    group: g\n    expires: 2030-02-30",
    5,
    "keys[0].expires",
    "an ISO date",
  ],
  [
    "a time outside the range that can be exported",
    'groups: [{ name: g }]\nkeys:\n  - name: k\n    group: g\n    expires: "9999-12-31T23:59:59-01:00"',
    5,
    "keys[0].expires",
    "an ISO date",
  ],
  [
    "an unset variable",
    `${ACCOUNT}    credential: \${NOT_THERE}`,
    5,
    "accounts[0].credential",
    "requires the environment variable NOT_THERE, which is not set.",
  ],
  [
    "a misspelt field with an unset variable",
    `${ACCOUNT}    credentail: \${NOT_THERE}`,
    5,
    "accounts[0].credentail",
    "is not a known field. Did you mean credential?",
  ],
  [
    "an unclosed variable",
    `${ACCOUNT}    credential: "\${NOT_THERE"`,
    5,
    "accounts[0].credential",
    `Write $\${ for a literal \${`,
  ],
  ["a duplicate field", "server:\n  port: 1\n  port: 2", 3, "server.port", "appears twice"],
  ["a list as a field name", "? [a, b]\n: 1", 1, '["?"]', "is not a valid field name"],
  [
    "__proto__ as a field name",
    "models: []\n__proto__: { polluted: true }",
    2,
    '["?"]',
    "is not a valid field name",
  ],
  ["tabs", "server:\n\tport: 1", 2, "", "A tab is used for indentation."],
  [
    "a field indented too little",
    "groups:\n  - name: a\n   models: []",
    3,
    "",
    "The indentation does not match",
  ],
  [
    "a field indented too much",
    "groups:\n  - name: a\n      models: []",
    3,
    "",
    "The indentation does not match",
  ],
  [
    "an item with another indentation",
    "models:\n    - id: a\n  - id: b",
    3,
    "",
    "The indentation does not match",
  ],
  ["a second colon", "server:\n  host: a: b", 2, "", 'The line has a second ": "'],
  ["a name without a colon", "server:\n  port: 1\n  host", 3, "", "the : after a field name"],
  ["a missing quote", "server:\n  host: 'x", 2, "", "A character is missing"],
  ["an alias without an anchor", "server: *nothing", 1, "server", "must refer to an anchor above"],
  ["a tag", "server: !!js/function x", 1, "", "A YAML tag"],
  ["two documents", "server: {}\n---\nmodels: []", 2, "", "a second document"],
  ["a list instead of a map", "- a\n- b", 1, "", "must be a map of fields."],
];

describe("an invalid file is reported with line, field and remedy", () => {
  for (const [what, text, line, field, says] of BAD) {
    test(what, () => {
      const problems = findProblems(text);
      const problem = problems.find((candidate) => candidate.field === field && candidate.line === line);
      expect(problems.map(({ line, field }) => `${line} ${field}`)).toContain(`${line} ${field}`);
      expect(problem?.message).toContain(says);
      expect(problem?.file).toBe("gateway.yaml");
      expect(problem?.column).toBeGreaterThan(0);
    });
  }
});

describe("several problems", () => {
  test("are reported together, in the order of their lines", () => {
    const text = [
      "server: { port: x }",
      "accounts:",
      "  - name: a",
      "    kind: openai",
      `    credential: \${NOT_THERE}`,
      "groups:",
      "  - name: g",
      "    models: [nope]",
      "    limits: { rpm: -5 }",
      "    colour: red",
    ].join("\n");
    expect(findProblems(text).map(({ line, field }) => [line, field])).toEqual([
      [1, "server.port"],
      [3, "accounts[0].base_url"],
      [5, "accounts[0].credential"],
      [8, "groups[0].models[0]"],
      [9, "groups[0].limits.rpm"],
      [10, "groups[0].colour"],
    ]);
  });
});

describe("a malicious file", () => {
  test("with exponentially expanding aliases is rejected at a limit", () => {
    const levels = ["a: &l0 [x, x, x, x, x, x, x, x, x, x]"];
    for (let i = 1; i < 12; i++)
      levels.push(
        `k${i}: &l${i} [${Array(10)
          .fill(`*l${i - 1}`)
          .join(", ")}]`,
      );
    const problems = findProblems(levels.join("\n"));
    expect(problems.some(({ message }) => message.includes("at most 100 aliases"))).toBe(true);
  });

  test("with a recursive alias is rejected", () => {
    expect(findProblems("models: &m [*m]").length).toBeGreaterThan(0);
  });

  test("with 100,000 brackets is rejected without a crash", () => {
    expect(findProblems(`models: ${"[".repeat(100_000)}`).length).toBeGreaterThan(0);
  });

  test("any text produces a file or problems, never an exception", () => {
    const pieces = fc.constantFrom(
      "a",
      ":",
      " ",
      "\n",
      "-",
      "[",
      "]",
      "{",
      "}",
      "&x",
      "*x",
      "!",
      "|",
      ">",
      "\t",
      "'",
      '"',
      `\${A}`,
      "models",
      "#",
      "?",
      "%",
      "---",
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 40 }), (parts) => {
        const parsed = parseGatewayFile(parts.join(""), { fileName: "f", environment: {} });
        expect(parsed.ok || parsed.problems.length > 0).toBe(true);
      }),
      { numRuns: 300 },
    );
  });
});

describe("secrets in problems", () => {
  const CANARY = "canaryD41d8cd98f00b204";

  test(`the value of a \${…} is not shown, wherever it is used`, () => {
    // V is replaced by a quoted value, W by a value inside a longer text.
    const places = [
      "server: { host: V, port: V, public_url: V, allowed_origins: [V], allowed_hosts: [V], large_bodies_mib: V }",
      "registration: V",
      "models: [{ id: V, interfaces: [V], price: { input: V } }, { id: V, interfaces: V }]",
      "accounts: [{ name: V, kind: V, base_url: V, interfaces: [V], weight: V, models: { a: V, 'b*': V } }]",
      "accounts: [{ name: V, kind: openai, base_url: 'https://u:W@h' }, { name: V, kind: openai, base_url: 'https://h' }]",
      "groups: [{ name: V, models: [V, V, x], accounts: [V], on_disconnect: V, queue: V, limits: { windows: [{ per: V }] } }]",
      "models: [{ id: V, interfaces: [chat] }]\ngroups: [{ name: g, models: [canaryD41d8cd98f00b20, other] }]",
      "users: [{ email: V, role: V, password: V, balance: V }]",
      "keys: [{ name: V, user: V, group: V, secret: 'short W', expires: V, limits: V }]",
      "V: V",
    ];
    for (const place of places) {
      const problems = findProblems(place.replace(/V/g, `"\${CANARY}"`).replace(/W/g, `\${CANARY}`), {
        CANARY,
      });
      expect(problems.length).toBeGreaterThan(0);
      for (const problem of problems) expect(formatProblem(problem)).not.toContain(CANARY);
    }
  });

  test("the value of a secret field is not shown even if it is written in the file", () => {
    for (const broken of [
      `${CANARY}: x`,
      `*${CANARY}`,
      `!${CANARY}`,
      `"${CANARY}`,
      `[${CANARY}`,
      `${CANARY}\\x00 y`,
      `%${CANARY}`,
      `{ ${CANARY}: 1 }`,
    ]) {
      const text = `accounts:\n  - name: a\n    kind: nope\n    credential: ${broken}\nusers:\n  - email: x\n    password: ${broken}\nkeys:\n  - name: k\n    group: g\n    secret: ${broken}\n`;
      const problems = findProblems(text);
      expect(problems.length).toBeGreaterThan(0);
      for (const problem of problems) expect(formatProblem(problem)).not.toContain(CANARY);
    }
  });
});

describe("the size of a file", () => {
  const read = (text: string, valuesMax: number) => {
    const parsed = parseGatewayFile(text, { fileName: "f", environment: {}, valuesMax });
    return parsed.ok ? [] : parsed.problems.map(({ message }) => message);
  };
  const text = "groups: [{ name: a }]";

  test("is at most the number of values that the reader accepts: lists, entries and fields", () => {
    expect(read(text, 4)).toEqual([]);
    expect(read(text, 3)).toEqual([expect.stringContaining("The file has more than 3 values.")]);
  });

  test("counts what an alias repeats", () => {
    expect(read("a: &a [1, 2, 3]\nb: [*a, *a]", 14)).not.toEqual([expect.stringContaining("values")]);
    expect(read("a: &a [1, 2, 3]\nb: [*a, *a]", 13)).toEqual([expect.stringContaining("values")]);
  });

  test("is at most 64 levels", () => {
    const nest = (depth: number) => `a: ${"[".repeat(depth)}${"]".repeat(depth)}`;
    const tooDeep = ["The file is nested too deeply to be read."];
    expect(read(nest(64), 1_000)).not.toEqual(tooDeep);
    for (const depth of [65, 2_000]) expect(read(nest(depth), 1_000)).toEqual(tooDeep);
  });
});
