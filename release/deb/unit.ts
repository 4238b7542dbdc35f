/** The systemd unit of the Debian package. */

import { ALLOCATOR_SETTINGS } from "../../src/cli/allocator-settings.ts";

/** What the service may not do. */
const CONFINEMENT = `NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateUsers=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
# Not MemoryDenyWriteExecute: the runtime compiles code while it runs.`;

export function buildUnit(): string {
  const allocator = Object.entries(ALLOCATOR_SETTINGS).map(([name, value]) => `Environment=${name}=${value}`);
  return `[Unit]
Description=Model Gateway
Documentation=file:///usr/share/doc/model-gateway/README.md
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart=/usr/bin/model-gateway start --config /etc/model-gateway/gateway.yaml
# Replaces the processes of server.processes one after another, without a failed request.
ExecReload=/bin/kill -USR2 $MAINPID
# With several processes, the first one lets the others finish their requests.
KillMode=mixed
EnvironmentFile=-/etc/model-gateway/environment
# Read again by every process that starts, so that a reload is enough for a changed variable.
Environment=MODEL_GATEWAY_ENVIRONMENT_FILE=/etc/model-gateway/environment
Environment=MODEL_GATEWAY_DATA=/var/lib/model-gateway
${allocator.join("\n")}
# Secrets as files that only this service can read: systemctl edit model-gateway, then for example
#   [Service]
#   LoadCredential=openai:/etc/model-gateway/credentials/openai
# and in gateway.yaml  credential: \${file:openai}
User=model-gateway
Group=model-gateway
StateDirectory=model-gateway
StateDirectoryMode=0700
UMask=0077
Restart=always
RestartSec=2
# A process whose event loop stands still is restarted.
WatchdogSec=30
# The default signal makes the runtime report a crash of its own, which it is not.
WatchdogSignal=SIGKILL
# The first start of a new version may migrate a large database.
TimeoutStartSec=1h
# Requests in flight finish first: up to two minutes.
TimeoutStopSec=150
LimitNOFILE=65536
MemoryHigh=75%

${CONFINEMENT}

[Install]
WantedBy=multi-user.target
`;
}
