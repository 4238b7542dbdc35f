/** Where clients reach the gateway, as the console's API says: the page itself may have come another way. */

import { useEffect, useState } from "react";
import { z } from "zod";

const session = z.looseObject({ public_url: z.string().nullable() });

/** Without a slash at its end. Until it is known, and where nobody has said it, the page's own. */
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
