/** The result of one check of `doctor`, and what to do about it. */
export interface Finding {
  what: string;
  /** `broken`: something does not work. `doubtful`: it may be intended. */
  state: "good" | "doubtful" | "broken";
  says: string;
  todo: string | null;
}
