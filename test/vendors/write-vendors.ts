/** `npm run docs:vendors`: writes the tables of docs/vendors.md. */

import { resolve } from "node:path";
import { withVendorTables } from "./vendors-page.ts";

const path = resolve(import.meta.dir, "../../docs/vendors.md");
await Bun.write(path, withVendorTables(await Bun.file(path).text()));
