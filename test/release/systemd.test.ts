/**
 * The Debian package under a running systemd: in a container over a copy of this system that is thrown away, so that
 * the unit starts with all of its confinement. Needs systemd-nspawn (`apt-get install systemd-container`).
 */

import { afterAll, expect, test } from "bun:test";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cleanEnvironment, emptyFolder, RELEASE, VERSION } from "./support.ts";

const folder = emptyFolder();
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Prints one line for each fact; the test compares them. */
const SCRIPT = `
say() { echo "FACT $*"; }
show() { systemctl show model-gateway --value --property "$1"; }
ready() { for i in $(seq 300); do curl -sf http://127.0.0.1:8787/readyz >/dev/null && return; sleep 0.1; done; }
exec 2>&1
set -e
dpkg --install /package.deb
say installed "$(systemctl is-enabled model-gateway) $(systemctl is-active model-gateway)"
mkdir -p /etc/systemd/system/model-gateway.service.d
printf 'secret-of-the-file\\n' | install -m 0600 /dev/stdin /etc/model-gateway/credentials/openai
cat > /etc/systemd/system/model-gateway.service.d/test.conf <<'END'
[Service]
LoadCredential=openai:/etc/model-gateway/credentials/openai
WatchdogSec=2
END
cat >> /etc/model-gateway/gateway.yaml <<'END'
models: [{ id: fast, interfaces: [chat] }]
accounts:
  - { name: sim, kind: simulator, models: { fast: sim-fast } }
  - name: openai
    kind: openai
    base_url: https://api.openai.com/v1
    credential: "\${file:openai}"
    models: { fast: gpt-5.5 }
    enabled: false
groups: [{ name: default, interfaces: [chat], models: [fast], accounts: [sim, openai] }]
users: [{ email: ops@example.com, role: admin }]
keys: [{ name: ci, user: ops@example.com, group: default }]
END
systemctl daemon-reload
systemctl restart model-gateway
say restarted "$(systemctl is-active model-gateway) $(show Type)"
pid=$(show MainPID)
say process "$(ps -o user:32= -p $pid) $(grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/$pid/status | tr -s '\\t\\n' '  ')"
ready
key=$(grep -o 'gwk_[A-Za-z0-9_-]*' /var/lib/model-gateway/new-keys | head -1)
say stream "$(curl -sN http://127.0.0.1:8787/v1/chat/completions -H "Authorization: Bearer $key" -H 'Content-Type: application/json' \\
  -d '{"model":"fast","stream":true,"messages":[{"role":"user","content":"Hello"}]}' | tail -2 | head -1)"
say secrets "$(journalctl --unit model-gateway | grep -c -e "$key" -e secret-of-the-file || true)"
kill -STOP $pid
for i in $(seq 100); do [ "$(show NRestarts)" = 1 ] && [ "$(systemctl is-active model-gateway)" = active ] && break; sleep 0.2; done
say watchdog "$(journalctl --unit model-gateway | grep -c 'Watchdog timeout') $(systemctl is-active model-gateway), crash reports $(journalctl --unit model-gateway | grep -c panic || true)"
dpkg --install --force-confold /package.deb
ready
say upgraded "$(systemctl is-active model-gateway) $(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8787/v1/models -H "Authorization: Bearer $key")"
systemctl stop model-gateway
say stopped "$(show Result) $(show ExecMainStatus)"
systemctl start model-gateway
dpkg --remove model-gateway
say removed "$(systemctl is-active model-gateway || true) $(ls /var/lib/model-gateway/gateway.db)"
dpkg --purge model-gateway
say purged "$(ls -d /var/lib/model-gateway /etc/model-gateway | grep -c ^/ || true) $(getent passwd model-gateway | wc -l)"
journalctl --unit model-gateway --output cat
`;

/** Starts only what the test needs: the system may have databases and servers of its own. */
const TARGET = `[Unit]
Requires=basic.target gateway-test.service
After=basic.target
AllowIsolate=yes
`;
const SERVICE = `[Unit]
Requires=basic.target
After=basic.target
SuccessAction=exit-force
FailureAction=exit-force

[Service]
Type=oneshot
Environment=LANG=C.UTF-8
ExecStart=/bin/sh /script.sh
StandardOutput=file:/output
`;

test.skipIf(Bun.which("systemd-nspawn") === null)(
  "systemd starts, confines, watches, upgrades and stops the service (needs systemd-nspawn)",
  async () => {
    for (const [name, content] of Object.entries({
      "script.sh": SCRIPT,
      "gateway-test.target": TARGET,
      "gateway-test.service": SERVICE,
    }))
      writeFileSync(join(folder, name), content);
    const layers = join(folder, "layers");
    mkdirSync(layers);
    chmodSync(folder, 0o755);
    const enter = [
      // A host may have both versions of cgroups. The container has the current one.
      "mount --make-rprivate /",
      "umount --lazy /sys/fs/cgroup",
      "mount -t cgroup2 none /sys/fs/cgroup",
      `mount -t tmpfs none ${layers}`,
      `mkdir ${layers}/upper ${layers}/work ${layers}/root`,
      `mount -t overlay overlay -o lowerdir=/,upperdir=${layers}/upper,workdir=${layers}/work ${layers}/root`,
      `cd ${layers}/root`,
      `cp ${join(RELEASE, `model-gateway_${VERSION}_amd64.deb`)} package.deb`,
      `cp ${folder}/script.sh .`,
      `cp ${folder}/gateway-test.* etc/systemd/system/`,
      "systemd-nspawn --quiet --register=no --keep-unit --private-network --console=pipe --directory . --boot systemd.unit=gateway-test.target || true",
      "cat output",
    ].join("\n");
    const child = Bun.spawn(["unshare", "--mount", "--pid", "--fork", "sh", "-ec", enter], {
      env: { ...cleanEnvironment(), PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, err] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    if ((await child.exited) !== 0) throw new Error(`the container failed:\n${out}\n${err}`);
    const facts = out
      .split("\n")
      .filter((line) => line.startsWith("FACT "))
      .map((line) => line.slice(5).trim());
    expect(facts, out).toEqual([
      "installed enabled active",
      "restarted active notify",
      "process model-gateway CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2",
      "stream data: [DONE]",
      "secrets 0",
      "watchdog 1 active, crash reports 0",
      "upgraded active 200",
      "stopped success 0",
      "removed inactive /var/lib/model-gateway/gateway.db",
      "purged 0 0",
    ]);
  },
);
