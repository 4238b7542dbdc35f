/** The configuration that faults begin with: priced models, a good account and a bad one, users with a key each. */

export const INTERFACES = ["chat", "responses", "embeddings", "messages"];
export const PRICE = { input: "2.50", cached_input: "1.25", output: "10.00" };

export interface Setup {
  /** Public model → upstream model of the good account. */
  models: Readonly<Record<string, string>>;
  /** The same of an account that fails a lot, so that the good one's health is not judged by it. */
  faulty?: Readonly<Record<string, string>>;
  /** The same of an account of Anthropic's API. */
  messages?: Readonly<Record<string, string>>;
  users: number;
  /** Of all models; `PRICE` unless set. */
  price?: object;
  /** Limits of user i's key. */
  limitsOf?(user: number): object | undefined;
  /** The most that any model says. */
  outputTokensMax?: number;
  /** Of each user. */
  balance?: string;
  groups: readonly object[];
  /** The group of user i. */
  groupOf?(user: number): string;
  plans?: readonly object[];
  subscriptions?: readonly object[];
}

export function userEmail(user: number): string {
  return `user-${user}@example.com`;
}

export function buildKey(user: number): string {
  return `faults-key-${user}-`.padEnd(40, "0123456789");
}

export function buildConfiguration(setup: Setup, simulatorUrl: string): object {
  const faulty = setup.faulty ?? {};
  const messages = setup.messages ?? {};
  const ids = [...new Set([setup.models, faulty, messages].flatMap((models) => Object.keys(models)))];
  const account = { kind: "openai", base_url: simulatorUrl, credential: "sk-sim", private_network: true };
  const accounts = [{ ...account, name: "good", models: setup.models, priority: 2 }];
  if (Object.keys(faulty).length > 0) accounts.push({ ...account, name: "bad", models: faulty, priority: 1 });
  if (Object.keys(messages).length > 0)
    accounts.push({ ...account, kind: "anthropic", name: "messages", models: messages, priority: 2 });
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
      price: setup.price ?? PRICE,
      max_output_tokens: setup.outputTokensMax ?? 4_096,
    })),
    accounts,
    plans: setup.plans ?? [],
    groups: setup.groups.map((group) => ({
      interfaces: INTERFACES,
      models: ids,
      accounts: accounts.map(({ name }) => name),
      // A request that waits for a cooling account shows nothing about money.
      queue: { max_waiting: 0 },
      ...group,
    })),
    users,
    keys: users.map(({ email }, user) => ({
      name: `key-${user}`,
      user: email,
      group: setup.groupOf?.(user) ?? "default",
      secret: buildKey(user),
      limits: setup.limitsOf?.(user) ?? {},
    })),
  };
}
