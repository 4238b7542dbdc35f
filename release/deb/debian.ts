/** Builds the Debian package: the executable, the systemd unit, a configuration to edit, and the maintainer scripts. */

import { loadAllCommands } from "../../src/cli/commands.ts";
import { completionScript } from "../../src/cli/completion.ts";
import { writeAr } from "../archive/ar.ts";
import { gzip } from "../archive/compress.ts";
import { addFolders, type TarEntry, writeTar } from "../archive/tar.ts";
import { type ReleaseSource, readText } from "../source.ts";
import { DEBIAN_ARCHITECTURES, type Target } from "../targets.ts";
import { manPage } from "./man-page.ts";
import { MAINTAINER_SCRIPTS } from "./scripts.ts";
import { buildUnit } from "./unit.ts";

/** The newest version of the C library that a symbol of the runtime needs. */
const LIBC_MINIMUM = "2.17";

const CONFIGURATION = `# The configuration of Model Gateway, applied at every start. All fields: docs/configuration.md.
# Models, accounts, groups and keys can be written here or created in the console.
server:
  host: 127.0.0.1
  port: 8787
`;

const ENVIRONMENT = `# Variables of the service, such as the values of \${…} in gateway.yaml. One NAME=value per line.
# DATABASE_URL=postgres://user:password@host/database
# All cores of the machine, with PostgreSQL:
# PROCESSES=auto
`;

/** The minus sign ignores kernels without the setting. */
const KERNEL_SETTINGS = `# Moves new connections to another process when one of several on a port stops.
-net.ipv4.tcp_migrate_req = 1
`;

const CONFIGURATION_FILES = ["etc/model-gateway/gateway.yaml", "etc/model-gateway/environment"];

const COMPLETION_FILES = [
  ["bash", "usr/share/bash-completion/completions/model-gateway"],
  ["zsh", "usr/share/zsh/vendor-completions/_model-gateway"],
  ["fish", "usr/share/fish/vendor_completions.d/model-gateway.fish"],
] as const;

export async function buildDebianPackage(
  target: Target,
  executable: Uint8Array,
  source: ReleaseSource,
): Promise<Buffer> {
  const { timeSeconds } = source;
  const files = await listPackageFiles(executable, source);
  const pack = (entries: readonly TarEntry[]) => gzip(writeTar(entries, { timeSeconds, prefix: "./" }));
  const control: TarEntry[] = [
    text("control", buildControl(target, files, source)),
    text("conffiles", CONFIGURATION_FILES.map((path) => `/${path}\n`).join("")),
    text("md5sums", buildChecksums(files)),
    ...Object.entries(MAINTAINER_SCRIPTS).map(
      ([path, content]): TarEntry => ({ kind: "file", path, mode: 0o755, content: Buffer.from(content) }),
    ),
  ];
  return writeAr(
    [
      { name: "debian-binary", content: Buffer.from("2.0\n") },
      { name: "control.tar.gz", content: pack(control) },
      { name: "data.tar.gz", content: pack(addFolders(files)) },
    ],
    timeSeconds,
  );
}

async function listPackageFiles(executable: Uint8Array, source: ReleaseSource): Promise<TarEntry[]> {
  const [configurationFile = "", environmentFile = ""] = CONFIGURATION_FILES;
  const commands = await loadAllCommands();
  return [
    { kind: "file", path: "usr/bin/model-gateway", mode: 0o755, content: executable },
    text("lib/systemd/system/model-gateway.service", buildUnit()),
    text("usr/lib/sysctl.d/50-model-gateway.conf", KERNEL_SETTINGS),
    text(configurationFile, CONFIGURATION),
    text(environmentFile, ENVIRONMENT),
    { kind: "folder", path: "etc/model-gateway/credentials", mode: 0o700 },
    text("usr/share/doc/model-gateway/copyright", readText("LICENSE")),
    text("usr/share/doc/model-gateway/README.md", readText("README.md")),
    {
      kind: "file",
      path: "usr/share/doc/model-gateway/changelog.gz",
      mode: 0o644,
      content: gzip(Buffer.from(readText("CHANGELOG.md"))),
    },
    {
      kind: "file",
      path: "usr/share/man/man1/model-gateway.1.gz",
      mode: 0o644,
      content: gzip(Buffer.from(manPage(commands, { version: source.version, date: formatDate(source) }))),
    },
    ...COMPLETION_FILES.map(([shell, path]) => text(path, `${completionScript(shell, commands)}\n`)),
  ];
}

function formatDate({ timeSeconds }: ReleaseSource): string {
  return new Date(timeSeconds * 1_000).toISOString().slice(0, 10);
}

function buildControl(
  target: Target,
  files: readonly TarEntry[],
  { version, description }: ReleaseSource,
): string {
  const bytes = files.reduce((sum, entry) => sum + (entry.kind === "file" ? entry.content.length : 0), 0);
  return `Package: model-gateway
Version: ${version}
Architecture: ${DEBIAN_ARCHITECTURES[target.architecture]}
Maintainer: The Model Gateway authors <model-gateway@localhost>
Installed-Size: ${Math.ceil(bytes / 1_024)}
Depends: libc6 (>= ${LIBC_MINIMUM}), passwd
Section: net
Priority: optional
Description: gateway for LLM APIs
 ${description}
`;
}

function buildChecksums(files: readonly TarEntry[]): string {
  return files
    .flatMap((entry) => {
      if (entry.kind !== "file" || CONFIGURATION_FILES.includes(entry.path)) return [];
      return [`${new Bun.CryptoHasher("md5").update(entry.content).digest("hex")}  ${entry.path}\n`];
    })
    .join("");
}

function text(path: string, content: string): TarEntry {
  return { kind: "file", path, mode: 0o644, content: Buffer.from(content) };
}
