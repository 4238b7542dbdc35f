/** `response.steer`: no upstream that is spoken to in whole requests can be steered, so the input goes back. */
export function steerFailed(previousId: string | null, input: unknown): string {
  return JSON.stringify({
    type: "response.steer.failed",
    sequence_number: 0,
    steer: { previous_response_id: previousId, input },
    error: {
      type: "invalid_request_error",
      code: "steering_not_supported",
      message: "A response under way cannot be steered here. Send the input in the next response.create.",
    },
  });
}
