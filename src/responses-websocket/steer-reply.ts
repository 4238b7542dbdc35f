/** The reply to `response.steer` messages. */

/** A response in flight cannot be steered upstream, so the input is returned to the client. */
export function steerFailed(previousId: string | null, input: unknown): string {
  return JSON.stringify({
    type: "response.steer.failed",
    sequence_number: 0,
    steer: { previous_response_id: previousId, input },
    error: {
      type: "invalid_request_error",
      code: "steering_not_supported",
      message:
        "Steering a response in progress is not supported. Send the input in the next response.create.",
    },
  });
}
