/** Before any schema is made: the page's content policy forbids the code that zod would else write for itself. */

import { z } from "zod";

z.config({ jitless: true });
