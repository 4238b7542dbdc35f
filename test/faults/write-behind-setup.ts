/** The users of the write-behind fault: most have a large balance, some a small one, and one almost none. */

import { makeTariff } from "../../src/money/tariff.ts";

/** One nano a token, in and out. */
export const TARIFF = makeTariff({ input: "0.001", output: "0.001" });

export const USERS = Array.from({ length: 20 }, (_, index) => ({
  id: `u${index}`,
  balanceNano: index === 0 ? 40_000n : index < 4 ? 3_000_000n : 10n ** 12n,
}));
