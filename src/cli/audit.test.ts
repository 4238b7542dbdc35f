import { expect, test } from "bun:test";
import { findingText } from "./audit.ts";

test.each([
  [
    "balance",
    "user:u1",
    "1500000000",
    "1000000000",
    "user:u1 has a balance of $1.50, but its ledger entries add up to $1.00.",
  ],
  ["held", "u1", "5", "0", "u1 has $0.000000005 held, but its open holds add up to $0.00."],
  ["available", "u1", "-1000000000", "5", "u1 has a balance of -$1.00, but $0.000000005 is held."],
  ["row_entry", "req_1", "0", "7", "req_1 has a charge of $0.000000007, but no ledger entry."],
  [
    "row_entry",
    "req_1",
    "6",
    "7",
    "req_1 has a charge of $0.000000007, but its ledger entry has $0.000000006.",
  ],
  [
    "entry_row",
    "charge:req_1",
    "0",
    "7",
    "charge:req_1 charges $0.000000007, but no single request has this charge.",
  ],
  [
    "entry",
    "charge:req_1",
    "user:u2 to revenue",
    "charge",
    "charge:req_1 is posted from user:u2 to revenue, which is invalid for an entry of kind charge.",
  ],
  ["code", "redeem:x", "7", "0", "redeem:x credits $0.000000007, but no code was redeemed for it."],
  [
    "code",
    "redeem:x",
    "0",
    "7",
    "redeem:x is a code that was redeemed for $0.000000007, but no entry credits this amount to the user who redeemed it.",
  ],
  ["row_charge", "req_1", "7", "6", "req_1 was charged $0.000000007, but should be charged $0.000000006."],
  [
    "log_entry",
    "topup:1",
    "nothing",
    "amount $5.00, entry topup:1",
    "topup:1 differs between the audit log and the ledger.\n    audit log  amount $5.00, entry topup:1\n    ledger     nothing",
  ],
  [
    "entry_log",
    "topup:1",
    "5000000000",
    "topup",
    "topup:1, kind topup, amount $5.00, is missing from the audit log.",
  ],
  ["refund", "req_1", "7", "5", "req_1 was refunded $0.000000007, but only $0.000000005 was charged."],
  [
    "days",
    "key key_1 2026-09-02 fast",
    "requests 3",
    "requests 2",
    "The daily roll-up key key_1 2026-09-02 fast differs from the sum of its hours.\n    roll-up  requests 3\n    hours    requests 2",
  ],
  [
    "hold_lease",
    "req_1",
    "1800000000000",
    "1800000000000",
    "req_1 has been open since 2027-01-15 08:00:00 UTC, longer than any request can take.",
  ],
  [
    "window",
    "sub_1 day 0",
    "used 1 held 0",
    "used 2 held 0",
    "window: sub_1 day 0 is used 1 held 0, but should be used 2 held 0.",
  ],
])("a finding of %s names what was compared", (check, subject, is, ought, text) => {
  expect(findingText({ check, subject, is, ought })).toBe(text);
});
