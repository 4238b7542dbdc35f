/**
 * The scripts that dpkg runs. Removing the package keeps the data and the configuration; purging it deletes both, as
 * administrators of Debian expect.
 */

const SYSTEMD_RUNS = "[ -d /run/systemd/system ]";

const POSTINST = `#!/bin/sh
set -e
if [ "$1" = configure ]; then
  if ! getent passwd model-gateway >/dev/null; then
    useradd --system --user-group --no-create-home --home-dir /var/lib/model-gateway \\
      --shell /usr/sbin/nologin --comment "Model Gateway" model-gateway
  fi
  if [ ! -d /var/lib/model-gateway ]; then
    install -d -m 0700 -o model-gateway -g model-gateway /var/lib/model-gateway
  fi
  # The files may name secrets. A mode that the administrator has set on an earlier version stays.
  if [ -z "$2" ]; then
    chgrp model-gateway /etc/model-gateway/gateway.yaml /etc/model-gateway/environment
    chmod 0640 /etc/model-gateway/gateway.yaml /etc/model-gateway/environment
  fi
  if ${SYSTEMD_RUNS}; then
    /lib/systemd/systemd-sysctl 50-model-gateway.conf || true
    systemctl daemon-reload
    if [ -z "$2" ]; then
      systemctl enable --now model-gateway.service
    else
      systemctl try-restart model-gateway.service
    fi
  fi
fi
`;

const PRERM = `#!/bin/sh
set -e
if [ "$1" = remove ] && ${SYSTEMD_RUNS}; then
  systemctl disable --now model-gateway.service
fi
`;

const POSTRM = `#!/bin/sh
set -e
if ${SYSTEMD_RUNS}; then
  systemctl daemon-reload
fi
if [ "$1" = purge ]; then
  rm -rf /var/lib/model-gateway /etc/model-gateway
  if getent passwd model-gateway >/dev/null; then
    userdel model-gateway
  fi
fi
`;

export const MAINTAINER_SCRIPTS: Readonly<Record<string, string>> = {
  postinst: POSTINST,
  prerm: PRERM,
  postrm: POSTRM,
};
