import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { formatProblem, type Problem } from "../state/problem.ts";
import { parseGatewayFile } from "./file.ts";

const ENVIRONMENT = { UPSTREAM_KEY: "upstream-key-value", GROUP_NAME: "staff" };

function problemsOf(text: string, environment: Record<string, string> = ENVIRONMENT): Problem[] {
  const parsed = parseGatewayFile(text, { fileName: "gateway.yaml", environment });
  return parsed.ok ? [] : parsed.problems;
}

function fileOf(text: string, environment: Record<string, string> = ENVIRONMENT) {
  const parsed = parseGatewayFile(text, { fileName: "gateway.yaml", environment });
  if (!parsed.ok) throw new Error(parsed.problems.map(formatProblem).join("\n"));
  return parsed.file;
}

const ACCOUNT = "accounts:\n  - name: a\n    kind: openai\n    base_url: https://up.example/v1\n";

describe("what is left out gets its default", () => {
  test("an account speaks all four interfaces, maps every name to itself, and has priority and weight 1", () => {
    expect(fileOf(ACCOUNT).accounts[0]).toMatchObject({
      interfaces: ["chat", "responses", "embeddings", "images"],
      models: { "*": "*" },
      priority: 1,
      weight: 1,
      enabled: true,
      private_network: false,
    });
  });

  test("a group does not charge, and its charge decides what a disconnect does", () => {
    const group = fileOf("groups:\n  - name: g").groups[0];
    expect(group).toMatchObject({ models: [], accounts: [] });
    expect(group?.billing).toBeUndefined();
    expect(group?.on_disconnect).toBeUndefined();
  });

  test("a queue that is begun is filled up: a hundred may wait, for half a minute", () => {
    expect(fileOf("groups: [{ name: g, queue: {} }]").groups[0]?.queue).toEqual({
      max_waiting: 100,
      timeout: 30_000,
    });
  });

  test("a file of comments alone is a file that names nothing", () => {
    expect(fileOf("# nothing yet\n")).toMatchObject({
      models: [],
      accounts: [],
      groups: [],
      users: [],
      keys: [],
    });
  });
});

describe("values", () => {
  test(`\${NAME} is taken from the environment, inside a longer text too`, () => {
    const account = fileOf(`${ACCOUNT}    credential: "pre-\${UPSTREAM_KEY}"\n`).accounts[0];
    expect(account?.credential).toBe("pre-upstream-key-value");
  });

  test(`$\${ is a plain \${`, () => {
    expect(fileOf(`${ACCOUNT}    credential: a$\${b}\n`).accounts[0]?.credential).toBe(`a\${b}`);
  });

  test("a port may come from the environment, where everything is text", () => {
    expect(fileOf(`server:\n  port: \${PORT}`, { PORT: "9000" }).server.port).toBe(9000);
  });

  test("a base address loses its trailing slash", () => {
    const file = fileOf("accounts: [{ name: a, kind: openai, base_url: 'https://up.example/v1/' }]");
    expect(file.accounts[0]?.base_url).toBe("https://up.example/v1");
  });

  test("a base address may have a name of another script, and a path that is encoded", () => {
    for (const url of ["https://höher.example/v1", "https://up.example:8443/a%20b/~x/v1", "http://[::1]:9"]) {
      const file = fileOf(JSON.stringify({ accounts: [{ name: "a", kind: "openai", base_url: url }] }));
      expect(file.accounts[0]?.base_url).toBe(url);
    }
  });

  test("a key that expires on a day lives to the end of that day in UTC", () => {
    const file = fileOf("groups: [{ name: g }]\nkeys: [{ name: k, group: g, expires: 2030-02-28 }]");
    expect(file.keys[0]?.expires).toBe(Date.UTC(2030, 1, 28, 23, 59, 59, 999));
  });

  test("an anchor may be used again", () => {
    const file = fileOf(
      "models:\n  - id: a\n    interfaces: &all [chat, responses]\n  - id: b\n    interfaces: *all\n",
    );
    expect(file.models[1]?.interfaces).toEqual(["chat", "responses"]);
  });

  test("a file may refer to what the store knows already", () => {
    const known = {
      models: new Set(["m"]),
      accounts: new Set(["a"]),
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
    "Did you mean port? Allowed here: host, port, public_url, allowed_origins, allowed_hosts, large_bodies_mib.",
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
    "a wrong word",
    `${ACCOUNT}    interfaces: [chatt]`,
    5,
    "accounts[0].interfaces[0]",
    '"chatt" is not allowed. Did you mean chat? Allowed: chat, responses, embeddings, images.',
  ],
  [
    "an unknown kind",
    "accounts:\n  - name: a\n    kind: cohere\n",
    3,
    "accounts[0].kind",
    "Allowed: openai, azure, anthropic, gemini, simulator.",
  ],
  ["a missing name", "groups:\n  - models: []", 2, "groups[0].name", "is missing."],
  [
    "a missing base_url",
    "accounts:\n  - name: a\n    kind: openai",
    2,
    "accounts[0].base_url",
    "is missing.",
  ],
  ["a section without content", "models:\n", 1, "models", "is empty. Remove the field, or give it a list."],
  ["a map for a list", "models: { id: x }", 1, "models", "must be a list."],
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
    "not negative",
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
    "a broken duration",
    "groups:\n  - name: g\n    queue: { max_waiting: 1, timeout: 30 }",
    3,
    "groups[0].queue.timeout",
    "a duration like 30s, at most 1h",
  ],
  [
    "a queue that nobody waits in to its end",
    "groups:\n  - name: g\n    queue: { timeout: 2h }",
    3,
    "groups[0].queue.timeout",
    "at most 1h",
  ],
  [
    "a limit of nothing",
    "groups:\n  - name: g\n    limits: { rpm: 0 }",
    3,
    "groups[0].limits.rpm",
    "a whole number, 1 or more",
  ],
  [
    "a limit that is no whole number",
    `${ACCOUNT}    limits: { concurrency: 1.5 }`,
    5,
    "accounts[0].limits.concurrency",
    "a whole number, 1 or more",
  ],
  [
    "a window of an account",
    `${ACCOUNT}    limits: { windows: [] }`,
    5,
    "accounts[0].limits.windows",
    "Allowed here: concurrency, rpm, tpm.",
  ],
  [
    "a window of another length",
    "users:\n  - email: a@b.c\n    limits:\n      windows: [{ per: 2d, requests: 1 }]",
    4,
    "users[0].limits.windows[0].per",
    "Allowed: 5h, 1d, 7d, 30d.",
  ],
  [
    "a window that limits nothing",
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
    "one entry for each length",
  ],
  [
    "userinfo in an address",
    "accounts:\n  - name: a\n    kind: openai\n    base_url: https://u:p@x.example",
    4,
    "accounts[0].base_url",
    "without user, password",
  ],
  [
    "another scheme",
    "accounts:\n  - name: a\n    kind: openai\n    base_url: file:///etc/passwd",
    4,
    "accounts[0].base_url",
    "http:// or https://",
  ],
  [
    "a space in an address",
    "accounts:\n  - name: a\n    kind: openai\n    base_url: https://x.example/a b/v1",
    4,
    "accounts[0].base_url",
    "ASCII without spaces",
  ],
  [
    "letters in an address that HTTP does not have",
    "accounts:\n  - name: a\n    kind: openai\n    base_url: https://x.example/é/v1",
    4,
    "accounts[0].base_url",
    "ASCII without spaces",
  ],
  [
    "a version that Azure does not have",
    "accounts:\n  - name: a\n    kind: azure\n    base_url: https://x.example\n    api_version: newest",
    5,
    "accounts[0].api_version",
    "or one of v1, preview, latest",
  ],
  [
    "Latin-1 that was read as UTF-8",
    Buffer.from("groups:\n  - name: B\xfcro", "latin1").toString(),
    2,
    "",
    "The file is not UTF-8",
  ],
  [
    "UTF-16 that was read as UTF-8",
    Buffer.from("\ufeffgroups: []", "utf16le").toString(),
    1,
    "",
    "The file is not UTF-8",
  ],
  [
    "a base_url for the simulator",
    "accounts:\n  - name: a\n    kind: simulator\n    base_url: http://x.example",
    4,
    "accounts[0].base_url",
    "built in",
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
    "is for responses",
  ],
  [
    "a wildcard in the middle",
    `${ACCOUNT}    models: { "a*b": c }`,
    5,
    'accounts[0].models["a*b"]',
    "a single * as its last character",
  ],
  [
    "a wildcard on one side",
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
    'there is no model "fats". Did you mean "fast"?',
  ],
  [
    "an unknown account",
    `${ACCOUNT}groups:\n  - name: g\n    accounts: [zebra]`,
    7,
    "groups[0].accounts[0]",
    'there is no account "zebra". Known: a.',
  ],
  [
    "an unknown group",
    "keys:\n  - name: k\n    group: g",
    3,
    "keys[0].group",
    'there is no group "g". Add it to groups.',
  ],
  [
    "an unknown user",
    "groups: [{ name: g }]\nkeys:\n  - name: k\n    group: g\n    user: a@b.c",
    5,
    "keys[0].user",
    "there is no user",
  ],
  [
    "a reference from the environment",
    `keys:\n  - name: k\n    group: \${GROUP_NAME}`,
    3,
    "keys[0].group",
    `there is no group from \${GROUP_NAME}.`,
  ],
  [
    "an entry named twice in a list",
    `${ACCOUNT}groups:\n  - name: g\n    accounts: [a, a]`,
    7,
    "groups[0].accounts[1]",
    "a second time",
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
  ["no e-mail address", "users:\n  - email: someone", 2, "users[0].email", "an e-mail address"],
  [
    "a day that does not exist",
    "groups: [{ name: g }]\nkeys:\n  - name: k\n    group: g\n    expires: 2030-02-30",
    5,
    "keys[0].expires",
    "an ISO date",
  ],
  [
    "a time that could not be written back",
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
    "needs the environment variable NOT_THERE, which is not set.",
  ],
  [
    "an unclosed variable",
    `${ACCOUNT}    credential: "\${NOT_THERE"`,
    5,
    "accounts[0].credential",
    `write $\${ for a plain \${`,
  ],
  ["a field written twice", "server:\n  port: 1\n  port: 2", 3, "server.port", "is written twice"],
  ["a list as a field name", "? [a, b]\n: 1", 1, '["?"]', "is not a field name"],
  [
    "__proto__ as a field name",
    "models: []\n__proto__: { polluted: true }",
    2,
    '["?"]',
    "is not a field name",
  ],
  ["tabs", "server:\n\tport: 1", 2, "", "A tab is used for indentation."],
  [
    "a field indented too little",
    "groups:\n  - name: a\n   models: []",
    3,
    "",
    "The indentation does not fit",
  ],
  [
    "a field indented too much",
    "groups:\n  - name: a\n      models: []",
    3,
    "",
    "The indentation does not fit",
  ],
  ["an item indented otherwise", "models:\n    - id: a\n  - id: b", 3, "", "The indentation does not fit"],
  ["a second colon", "server:\n  host: a: b", 2, "", 'A second ": " on one line'],
  ["a name without a colon", "server:\n  port: 1\n  host", 3, "", "the : after a field name"],
  ["a missing quote", "server:\n  host: 'x", 2, "", "A character is missing"],
  ["an alias without an anchor", "server: *nothing", 1, "server", "must name an anchor above"],
  ["a tag", "server: !!js/function x", 1, "", "A YAML tag"],
  ["two documents", "server: {}\n---\nmodels: []", 2, "", "a second document"],
  ["a list for a file", "- a\n- b", 1, "", "must be a map of fields."],
];

describe("what is wrong is said with line, field and remedy", () => {
  for (const [what, text, line, field, says] of BAD) {
    test(what, () => {
      const problems = problemsOf(text);
      const problem = problems.find((candidate) => candidate.field === field && candidate.line === line);
      expect(problems.map(({ line, field }) => `${line} ${field}`)).toContain(`${line} ${field}`);
      expect(problem?.message).toContain(says);
      expect(problem?.file).toBe("gateway.yaml");
      expect(problem?.column).toBeGreaterThan(0);
    });
  }
});

describe("all of it at once", () => {
  test("problems of every kind come together, in the order of their lines", () => {
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
    expect(problemsOf(text).map(({ line, field }) => [line, field])).toEqual([
      [1, "server.port"],
      [3, "accounts[0].base_url"],
      [5, "accounts[0].credential"],
      [8, "groups[0].models[0]"],
      [9, "groups[0].limits.rpm"],
      [10, "groups[0].colour"],
    ]);
  });
});

describe("a hostile file is refused, not obeyed", () => {
  test("aliases that multiply stop at the limit", () => {
    const levels = ["a: &l0 [x, x, x, x, x, x, x, x, x, x]"];
    for (let i = 1; i < 12; i++)
      levels.push(
        `k${i}: &l${i} [${Array(10)
          .fill(`*l${i - 1}`)
          .join(", ")}]`,
      );
    const problems = problemsOf(levels.join("\n"));
    expect(problems.some(({ message }) => message.includes("at most 100 are expanded"))).toBe(true);
  });

  test("an alias to itself stops too", () => {
    expect(problemsOf("models: &m [*m]").length).toBeGreaterThan(0);
  });

  test("a hundred thousand brackets are a problem and not a crash", () => {
    expect(problemsOf(`models: ${"[".repeat(100_000)}`).length).toBeGreaterThan(0);
  });

  test("any text gives a file or problems, never an exception", () => {
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

describe("a secret never stands in a problem", () => {
  const CANARY = "canaryD41d8cd98f00b204";

  test(`wherever a \${…} is put, its value is not repeated`, () => {
    // V stands for a quoted value, W for one inside a longer text.
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
      const problems = problemsOf(place.replace(/V/g, `"\${CANARY}"`).replace(/W/g, `\${CANARY}`), {
        CANARY,
      });
      expect(problems.length).toBeGreaterThan(0);
      for (const problem of problems) expect(formatProblem(problem)).not.toContain(CANARY);
    }
  });

  test("the value of a secret field is not repeated even when it stands in the file itself", () => {
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
      const problems = problemsOf(text);
      expect(problems.length).toBeGreaterThan(0);
      for (const problem of problems) expect(formatProblem(problem)).not.toContain(CANARY);
    }
  });
});
