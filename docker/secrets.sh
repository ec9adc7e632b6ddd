#!/bin/sh
# Makes the secrets that compose.yaml mounts, where they are missing: docker/secrets/{kcontrol-token,grafana-password}.
# Only their owner gets into the directory; the files themselves are readable, because containers have users of their own.
set -eu
secrets=$(dirname "$0")/secrets
mkdir -p -m 700 "$secrets"
for name in kcontrol-token grafana-password; do
    if [ ! -s "$secrets/$name" ]; then
        umask 022
        od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$secrets/$name"
        echo "made $secrets/$name"
    fi
done
