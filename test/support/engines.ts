/** The database engines of the tests. */

export type Engine = "sqlite" | "postgres";

/** Names the only engine of a run. Without it, as in `bun test src/store`, tests run on both. */
export const ENGINE_VARIABLE = "TEST_ENGINE";
