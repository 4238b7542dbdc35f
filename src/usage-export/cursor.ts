/** Cursors of the usage feed: `feed_0199…:42` is the position after entry 42 of that feed. */

interface FeedCursor {
  readonly feedId: string;
  readonly feedNo: number;
}

export function formatCursor({ feedId, feedNo }: FeedCursor): string {
  return `${feedId}:${feedNo}`;
}

/** Null if the text is not a cursor. */
export function parseCursor(text: string): FeedCursor | null {
  const match = /^(feed_[0-9a-f-]{1,40}):(\d{1,15})$/.exec(text);
  const [, feedId, feedNo] = match ?? [];
  return feedId === undefined || feedNo === undefined ? null : { feedId, feedNo: Number(feedNo) };
}
