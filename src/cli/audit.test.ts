import { expect, test } from "bun:test";
import { findingText } from "./audit.ts";

test.each([
  [
    "balance",
    "user:u1",
    "1500000000",
    "1000000000",
    "user:u1 has a balance of $1.50, and its entries come to $1.00.",
  ],
  ["held", "u1", "5", "0", "u1 has $0.000000005 held, and its open holds come to $0.00."],
  ["available", "u1", "-1000000000", "5", "u1 has a balance of -$1.00, of which $0.000000005 is held."],
  ["row_entry", "req_1", "0", "7", "req_1 says that $0.000000007 was charged, and no entry does."],
  [
    "row_entry",
    "req_1",
    "6",
    "7",
    "req_1 says that $0.000000007 was charged, and its entry says $0.000000006.",
  ],
  [
    "entry_row",
    "charge:req_1",
    "0",
    "7",
    "charge:req_1 moved $0.000000007, and no row of a request says that it was charged so, once and by itself.",
  ],
  [
    "entry",
    "charge:req_1",
    "user:u2 to revenue",
    "charge",
    "charge:req_1 goes from user:u2 to revenue, as no charge of its user does.",
  ],
  ["code", "redeem:x", "7", "0", "redeem:x gave $0.000000007, and no code was redeemed for it."],
  [
    "code",
    "redeem:x",
    "0",
    "7",
    "redeem:x is a code that was redeemed for $0.000000007, and no entry gives it to whoever redeemed it then.",
  ],
  ["row_charge", "req_1", "7", "6", "req_1 was charged $0.000000007, and ought to be charged $0.000000006."],
  [
    "log_entry",
    "topup:1",
    "nothing",
    "amount $5.00, entry topup:1",
    "The log of changes tells of topup:1, and the ledger has something else.\n    log     amount $5.00, entry topup:1\n    ledger  nothing",
  ],
  [
    "entry_log",
    "topup:1",
    "5000000000",
    "topup",
    "topup:1 is a topup of $5.00 of which the log of changes tells nothing.",
  ],
  ["refund", "req_1", "7", "5", "req_1 was refunded $0.000000007, and $0.000000005 was charged for it."],
  [
    "days",
    "key key_1 2026-09-02 fast",
    "requests 3",
    "requests 2",
    "The sums of key key_1 2026-09-02 fast are not those of its hours.\n    sums   requests 3\n    hours  requests 2",
  ],
  [
    "hold_lease",
    "req_1",
    "1800000000000",
    "1800000000000",
    "req_1 holds money since 2027-01-15 08:00:00 UTC, longer than any request takes.",
  ],
  [
    "window",
    "sub_1 day 0",
    "used 1 held 0",
    "used 2 held 0",
    "window: sub_1 day 0 is used 1 held 0, and should be used 2 held 0.",
  ],
])("a contradiction of %s says what was compared", (check, subject, is, ought, text) => {
  expect(findingText({ check, subject, is, ought })).toBe(text);
});
