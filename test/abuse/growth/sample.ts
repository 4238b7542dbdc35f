/** Documents of a dialect, from which the growth tests derive their generators. */

export type JsonDocument = Readonly<Record<string, unknown>>;

export interface Sample {
  readonly name: string;
  readonly json: JsonDocument;
}

/** The events between the first and the last ones can repeat. A text is sent as it is. */
export interface StreamSample {
  readonly name: string;
  readonly head: readonly JsonDocument[];
  readonly events: readonly JsonDocument[];
  readonly tail: readonly (JsonDocument | string)[];
}

export interface DialectSamples {
  readonly requests: readonly Sample[];
  readonly responses: readonly Sample[];
  readonly streams: readonly StreamSample[];
}
