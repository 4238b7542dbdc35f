/** The configuration that faults begin with: priced models, a good account and a bad one, users with a key each. */

export const INTERFACES = ["chat", "responses", "embeddings", "messages"];
export const PRICE = {
  input: "2.50",
  cached_input: "1.25",
  output: "10.00",
  per_call: { web_search: "0.001" },
};

/** USD per million tokens, and per search. */
export interface ListPrice {
  readonly input: string;
  readonly cached_input: string;
  readonly output: string;
  readonly per_call?: { readonly web_search: string };
}

/** Other fields of a group as in gateway.yaml. It has all models, and all accounts but `more`, unless set. */
export interface SetupGroup {
  readonly name: string;
  readonly billing?: { readonly charge: string; readonly multiplier?: string };
  readonly accounts?: readonly string[];
  readonly web_searches_max?: number;
  readonly [field: string]: unknown;
}

export interface SetupAccount {
  readonly name: string;
  readonly kind: "openai" | "anthropic";
  /** Public model → upstream model. */
  readonly models: Readonly<Record<string, string>>;
  readonly priority: number;
  /** Whether every group has it that names no accounts. */
  readonly isShared: boolean;
}

export interface Setup {
  /** Public model → upstream model of the good account. */
  models: Readonly<Record<string, string>>;
  /** The same of an account that fails a lot, so that the good one's health is not judged by it. */
  faulty?: Readonly<Record<string, string>>;
  /** The same of an account of Anthropic's API. */
  messages?: Readonly<Record<string, string>>;
  /** The same of further accounts, by their names. Only groups that name them have them. */
  more?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  users: number;
  /** Of all models; `PRICE` unless set. */
  price?: ListPrice;
  /** The context windows of models. Another model serves as a fallback step only if its window is known. */
  readonly contextTokens?: Readonly<Record<string, number>>;
  /** Of some models, instead of `price`. */
  ownPrices?: Readonly<Record<string, ListPrice>>;
  /** The fallback steps of models. */
  modelFallback?: Readonly<Record<string, readonly object[]>>;
  requestPolicies?: readonly object[];
  /** Limits of user i's key. */
  limitsOf?(user: number): object | undefined;
  /** The most that any model says. */
  outputTokensMax?: number;
  /** Of each user. */
  balance?: string;
  groups: readonly SetupGroup[];
  /** The group of user i. */
  findGroup?(user: number): string;
  plans?: readonly object[];
  subscriptions?: readonly object[];
}

export function userEmail(user: number): string {
  return `user-${user}@example.com`;
}

export function buildKey(user: number): string {
  return `faults-key-${user}-`.padEnd(40, "0123456789");
}

/** All accounts of a setup. */
export function listAccounts({ models, faulty = {}, messages = {}, more = {} }: Setup): SetupAccount[] {
  const accounts: SetupAccount[] = [
    { name: "good", kind: "openai", models, priority: 2, isShared: true },
    { name: "bad", kind: "openai", models: faulty, priority: 1, isShared: true },
    { name: "messages", kind: "anthropic", models: messages, priority: 2, isShared: true },
    ...Object.entries(more).map(
      ([name, own]): SetupAccount => ({ name, kind: "openai", models: own, priority: 2, isShared: false }),
    ),
  ];
  return accounts.filter(({ models: served }) => Object.keys(served).length > 0);
}

/** The names of the accounts of a group. */
export function accountsOfGroup(setup: Setup, { accounts }: SetupGroup): readonly string[] {
  return accounts ?? listAccounts(setup).flatMap(({ name, isShared }) => (isShared ? [name] : []));
}

export function buildConfiguration(setup: Setup, simulatorUrl: string): object {
  const { messages = {}, modelFallback = {}, contextTokens = {}, ownPrices = {}, price = PRICE } = setup;
  const accounts = listAccounts(setup);
  const ids = [...new Set(accounts.flatMap(({ models }) => Object.keys(models)))];
  const users = Array.from({ length: setup.users }, (_, user) => ({
    email: userEmail(user),
    role: "user",
    ...(setup.balance === undefined ? {} : { balance: setup.balance }),
    ...(setup.subscriptions === undefined ? {} : { subscriptions: setup.subscriptions }),
  }));
  return {
    models: ids.map((id) => ({
      id,
      interfaces: id in messages ? ["messages"] : INTERFACES,
      price: ownPrices[id] ?? price,
      max_output_tokens: setup.outputTokensMax ?? 4_096,
      ...(contextTokens[id] === undefined ? {} : { context_tokens: contextTokens[id] }),
      ...(modelFallback[id] === undefined ? {} : { fallback: modelFallback[id] }),
    })),
    accounts: accounts.map(({ isShared, ...account }) => ({
      ...account,
      base_url: simulatorUrl,
      credential: "sk-sim",
      private_network: true,
    })),
    plans: setup.plans ?? [],
    ...(setup.requestPolicies === undefined ? {} : { request_policies: setup.requestPolicies }),
    groups: setup.groups.map((group) => ({
      interfaces: INTERFACES,
      models: ids,
      // A request that waits for a cooling account shows nothing about money.
      queue: { max_waiting: 0 },
      ...group,
      accounts: accountsOfGroup(setup, group),
    })),
    users,
    keys: users.map(({ email }, user) => ({
      name: `key-${user}`,
      user: email,
      group: setup.findGroup?.(user) ?? "default",
      secret: buildKey(user),
      limits: setup.limitsOf?.(user) ?? {},
    })),
  };
}
