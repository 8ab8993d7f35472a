#!/bin/sh
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# The readiness probe. A primary is ready when it accepts writes and the roles have the passwords of the Secret. A standby
# is ready while it follows the primary, and while the primary is away.
. "${0%/*}/lib.sh"

[ ! -e "$RUN/preparing" ] || fail "the data directory is being prepared"

# credentials prints the values of the Secret.
credentials() {
  for key in username database password replication-password; do
    echo "$key"
    cat "$CREDENTIALS/$key" 2>/dev/null || true
    echo
  done
}

# changed reports whether the Secret has other values than at the last success. The kubelet updates the files, so new
# passwords need no restart.
changed() { ! credentials | sha256sum | cmp -s - "$RUN/applied"; }

# applied keeps a digest of the values of the Secret, in a directory of the pod alone.
applied() { credentials | sha256sum >"$RUN/applied"; }

# Changed parameters that need no restart, and a renewed certificate.
if ! configuration | sha256sum | cmp -s - "$RUN/configured"; then
  local_sql --command='SELECT pg_reload_conf()' >/dev/null
  configuration | sha256sum >"$RUN/configured"
fi

if [ "$ORDINAL" = 0 ]; then
  [ "$(local_sql --command='SELECT pg_is_in_recovery()')" = f ] || fail "the primary is in recovery"
  if changed; then
    [ -s "$CREDENTIALS/password" ] || fail "the Secret has no key password"
    OWNER=$(cat "$CREDENTIALS/username" 2>/dev/null || echo app)
    DATABASE=$(cat "$CREDENTIALS/database" 2>/dev/null || echo app)
    REPLICATION_PASSWORD_FILE=$(replication_password_file)
    export OWNER DATABASE REPLICATION_PASSWORD_FILE
    local_sql --file="$SCRIPTS/roles.sql" || fail "the roles could not be set up"
    write_passfile
    applied
  fi
  exit 0
fi

if changed; then
  write_passfile
  applied
fi
[ "$(local_sql --command='SELECT pg_is_in_recovery()')" = t ] || fail "the standby is no standby"
streams=$(local_sql --command="SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'")
[ "$streams" = 1 ] || ! is_up 0 || fail "the standby does not follow the primary" "$(cat "$RUN/held" 2>/dev/null || true)"
