/** E-mail addresses of the users of a source. An address that is made from a name never joins two people. */

/** A user of the source with an address of their own, or with one that was made from a name. */
export interface Addressed {
  readonly email: string;
  readonly isMade: boolean;
}

interface AddressSource {
  /** Identifies the user in the source. */
  readonly id: string;
  readonly email: string | null;
  readonly name: string | null;
  /** Makes `name@domain`. */
  readonly domain: string | null;
}

const ADDRESS = /^[^\s@]+@[^\s@]+$/;

/** Null if there is none and none can be made. A name may look like an address of another person, so it counts as made. */
export function chooseAddress({ id, email, name, domain }: AddressSource): Addressed | null {
  if (email !== null && ADDRESS.test(email)) return { email: email.toLowerCase(), isMade: false };
  if (name !== null && ADDRESS.test(name)) return { email: name.toLowerCase(), isMade: true };
  if (name === null || domain === null) return null;
  const lower = name.toLowerCase();
  const local = /^[a-z0-9._+-]+$/.test(lower) ? lower : makeLocalPart(lower, id);
  return { email: `${local}@${domain.toLowerCase()}`, isMade: true };
}

/** Names with other characters may become the same text, so the id makes the address unique. */
function makeLocalPart(name: string, id: string): string {
  const readable = name.replace(/[^a-z0-9._+-]+/g, "-").replace(/^-+|-+$/g, "");
  const unique = /^\d{1,12}$/.test(id)
    ? id
    : new Bun.CryptoHasher("sha256").update(id).digest("hex").slice(0, 8);
  return `${readable === "" ? "user" : readable}-${unique}`;
}

export const SHARED_ADDRESS =
  "the address made from the name belongs to another user: not imported, nor are the keys and the balance.";

/** A made address belongs to the first user who gets it, unless it is the own address of another one. */
export function separateAddresses<User extends Addressed>(
  users: readonly User[],
): { separate: User[]; shared: User[] } {
  const own = new Set(users.filter(({ isMade }) => !isMade).map(({ email }) => email));
  const made = new Set<string>();
  const separate: User[] = [];
  const shared: User[] = [];
  for (const user of users) {
    const isShared = user.isMade && (own.has(user.email) || made.has(user.email));
    if (user.isMade) made.add(user.email);
    (isShared ? shared : separate).push(user);
  }
  return { separate, shared };
}
