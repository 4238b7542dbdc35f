/** Streams a file while it is generated, as fast as the client reads it. Its length is not limited. */

/**
 * The first part is read before the response begins, so that a failing database causes a normal error. A later
 * failure closes the connection, because a client must not take an incomplete file for a complete one.
 */
export async function streamedFile(
  parts: AsyncGenerator<string, void>,
  onFault: (thrown: unknown) => void,
): Promise<ReadableStream<Uint8Array>> {
  const encoder = new TextEncoder();
  let part = await parts.next();
  return new ReadableStream(
    {
      async pull(controller) {
        if (part.done === true) return controller.close();
        controller.enqueue(encoder.encode(part.value));
        try {
          part = await parts.next();
        } catch (thrown) {
          onFault(thrown);
          // Without a reason: the runtime would print it, and it is already logged.
          controller.error();
        }
      },
      async cancel() {
        await parts.return();
      },
    },
    { highWaterMark: 0 },
  );
}
