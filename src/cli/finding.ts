/** What `doctor` found out about one thing, and what to do about it. */
export interface Finding {
  what: string;
  /** `broken` keeps something from working; `doubtful` may be meant. */
  state: "good" | "doubtful" | "broken";
  says: string;
  todo: string | null;
}
