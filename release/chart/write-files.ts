/** `npm run docs:chart`: writes the generated files of `deploy/`. The plain manifests need Helm on the PATH. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../source.ts";
import { buildGeneratedFiles } from "./files.ts";
import { renderManifests } from "./manifests.ts";

function write(files: Readonly<Record<string, string>>): void {
  for (const [path, content] of Object.entries(files)) writeFileSync(join(ROOT, path), content);
}

write(buildGeneratedFiles());
const helm = Bun.which("helm");
if (helm === null) console.error("Helm is not installed, so deploy/kubernetes was not written.");
// After the values: Helm reads them from the chart.
else write(renderManifests(helm));
