/** A file that is read while it is sent, as fast as the client takes it: how long it is does not matter. */

/**
 * The first part is read at once, so that a store that fails is told like any failure. Later the connection is cut:
 * nobody should take what came until then for all of it.
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
          // Without a reason: the runtime would print it, and it is told already.
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
