/** Imported before any schema is created: the content security policy forbids the code that zod would generate. */

import { z } from "zod";

z.config({ jitless: true });
