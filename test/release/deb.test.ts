/** The Debian package, installed by dpkg into a temporary copy of this system. */

import { afterAll, expect, test } from "bun:test";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cleanEnvironment, emptyFolder, RELEASE, VERSION } from "./support.ts";

const folder = emptyFolder();
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Prints one line for each fact; the test compares them. */
const SCRIPT = `
set -e
say() { echo "FACT $*"; }
dpkg --install /package.deb >/dev/null
say installed "$(dpkg-query --show --showformat='\${Version} \${db:Status-Abbrev}' model-gateway)"
say user "$(getent passwd model-gateway | cut -d: -f1,6,7)"
say data "$(stat -c '%U %a' /var/lib/model-gateway)"
say configuration "$(stat -c '%U:%G %a' /etc/model-gateway/gateway.yaml)"
say changed "$(dpkg --verify model-gateway | grep -v /etc/ | wc -l)"
say unit "$(systemd-analyze verify /lib/systemd/system/model-gateway.service 2>&1 | grep -c model-gateway.service || true)"
start() {
  PORT=$PORT MODEL_GATEWAY_DATA=/var/lib/model-gateway setpriv --reuid=model-gateway --regid=model-gateway --clear-groups \\
    /usr/bin/model-gateway start --config /etc/model-gateway/gateway.yaml >/tmp/output 2>&1 &
  pid=$!
  for i in $(seq 300); do curl -sf http://127.0.0.1:$PORT/readyz >/dev/null && return; sleep 0.1; done
  cat /tmp/output; exit 1
}
stop() { kill -TERM $pid; wait $pid; say exit $?; }
cat >> /etc/model-gateway/gateway.yaml <<'EOF'
models: [{ id: fast, interfaces: [chat] }]
accounts: [{ name: sim, kind: simulator, models: { fast: sim-fast } }]
groups: [{ name: default, interfaces: [chat], models: [fast], accounts: [sim] }]
users: [{ email: ops@example.com, role: admin }]
keys: [{ name: ci, user: ops@example.com, group: default }]
EOF
start
key=$(grep -o 'gwk_[A-Za-z0-9_-]*' /var/lib/model-gateway/new-keys | head -1)
say stream "$(curl -sN http://127.0.0.1:$PORT/v1/chat/completions -H "Authorization: Bearer $key" -H 'Content-Type: application/json' \\
  -d '{"model":"fast","stream":true,"messages":[{"role":"user","content":"Hello"}]}' | tail -2 | head -1)"
say live "$(MODEL_GATEWAY_DATA=/var/lib/model-gateway /usr/bin/model-gateway doctor --live | head -1)"
stop
sum=$(sha256sum /var/lib/model-gateway/master.key)
dpkg --install --force-confold /package.deb >/dev/null
say upgrade "$(test "$sum" = "$(sha256sum /var/lib/model-gateway/master.key)" && grep -q ops@example.com /etc/model-gateway/gateway.yaml && echo keeps data and configuration)"
start
say key "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:$PORT/v1/models -H "Authorization: Bearer $key")"
stop
dpkg --remove model-gateway >/dev/null
say removed "$(test ! -e /usr/bin/model-gateway && test -e /var/lib/model-gateway/gateway.db && echo program gone, data kept)"
dpkg --purge model-gateway >/dev/null
say purged "$(ls -d /var/lib/model-gateway /etc/model-gateway 2>/dev/null | wc -l) $(getent passwd model-gateway | wc -l)"
`;

test("dpkg installs, upgrades, removes and purges it, and it serves a stream as its own user", async () => {
  const script = join(folder, "script.sh");
  writeFileSync(script, SCRIPT);
  const server = Bun.serve({ port: 0, fetch: () => new Response() });
  const { port = 0 } = server;
  await server.stop(true);
  const layers = join(folder, "layers");
  mkdirSync(layers);
  chmodSync(folder, 0o755);
  const enter = [
    // An overlay over the whole system: all changes of dpkg go to memory.
    `mount -t tmpfs none ${layers}`,
    `mkdir ${layers}/upper ${layers}/work ${layers}/root`,
    `mount -t overlay overlay -o lowerdir=/,upperdir=${layers}/upper,workdir=${layers}/work ${layers}/root`,
    `cd ${layers}/root`,
    "mount -t proc proc proc",
    "mount --rbind /dev dev",
    "mount -t tmpfs none tmp",
    `cp ${join(RELEASE, `model-gateway_${VERSION}_amd64.deb`)} package.deb`,
    `cp ${script} script.sh`,
    "exec /usr/sbin/chroot . sh /script.sh",
  ].join("\n");
  const child = Bun.spawn(["unshare", "--mount", "--pid", "--fork", "sh", "-ec", enter], {
    env: { ...cleanEnvironment(), PATH: `${process.env.PATH}:/usr/sbin:/sbin`, PORT: String(port) },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  expect({ code: await child.exited, err: err.trim() }).toMatchObject({ code: 0 });
  const facts = out
    .split("\n")
    .filter((line) => line.startsWith("FACT "))
    .map((line) => line.slice(5));
  expect(facts).toEqual([
    `installed ${VERSION} ii `,
    "user model-gateway:/var/lib/model-gateway:/usr/sbin/nologin",
    "data model-gateway 700",
    "configuration root:model-gateway 640",
    "changed 0",
    "unit 0",
    "stream data: [DONE]",
    "live ✓ server: answers",
    "exit 0",
    "upgrade keeps data and configuration",
    "key 200",
    "exit 0",
    "removed program gone, data kept",
    "purged 0 0",
  ]);
});
