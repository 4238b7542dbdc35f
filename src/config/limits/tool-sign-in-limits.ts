/** Limits and deadlines of the sign-in of tools. `product-limits.ts` includes them. */

export const toolSignInLimits = {
  toolSignIn: {
    /** How long a code works, and the pause between two polls of a tool. A poll that is too early makes it longer. */
    codeMs: 600_000,
    pollIntervalMs: 5_000,
    slowDownMs: 5_000,
    /** Requests that wait for a person. */
    pending: { inTotal: 2_000, perBlock: 20 },
    /** Wrong codes from one address, and of one person. */
    wrongCodes: { tries: 10, windowMs: 600_000 },
    /** Requests to the endpoints from one address. A company may have one address. */
    requests: { tries: 3_000, windowMs: 600_000 },
    starts: { tries: 120, windowMs: 600_000 },
    formBytesMax: 8_192,
    /** OTLP of a tool, which is discarded. */
    telemetryBytesMax: 4 * 1024 * 1024,
    telemetryTimeoutMs: 30_000,
    /** The shortest and the longest life of an access token, and the default. */
    accessToken: { minMs: 600_000, maxMs: 86_400_000, defaultMs: 3_600_000 },
    idleEnd: { minMs: 3_600_000, maxMs: 90 * 86_400_000, defaultMs: 14 * 86_400_000 },
    /** The share of its life by which an access token may end earlier, so that tools do not refresh at the same time. */
    jitter: 0.1,
    /** How long a replaced refresh token still gets a successor: two terminals share one file. */
    reuseMs: 30_000,
    /** Refreshes of one tool in a minute. */
    refreshesPerMinute: 5,
    /** Signed-in tools of one person. */
    toolsPerUserMax: 50,
    /** Sign-ins that end in one round, because their tool was not used. */
    idleMax: 500,
    groupsMax: 100,
    managedSettingsBytesMax: 65_536,
  },
};
