/** The public address of the gateway, from the console's API: the page itself may be served at another one. */

import { useEffect, useState } from "react";
import { z } from "zod";

const session = z.looseObject({ public_url: z.string().nullable() });

/** Without a trailing slash. The origin of the page, until the public address is known or if none is set. */
export function useOrigin(): string {
  const [origin, setOrigin] = useState(location.origin);
  useEffect(() => {
    const asking = new AbortController();
    fetch("/api/session", { signal: asking.signal })
      .then(async (response) => session.parse(await response.json()))
      .then(({ public_url }) => setOrigin(public_url ?? location.origin))
      .catch(() => {});
    return () => asking.abort();
  }, []);
  return origin;
}
