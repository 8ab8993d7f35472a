#!/bin/sh
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Starts the server of a pod: the primary in the pod with ordinal 0, a standby in each other pod.
#
# A data directory is made under another name and renamed when it is complete, so no server ever starts an incomplete one.
. "${0%/*}/lib.sh"

# check_major refuses data of another major version. A server could not start with it.
check_major() {
  [ -e "$DATA/PG_VERSION" ] || return 0
  made_by=$(cat "$DATA/PG_VERSION")
  # "postgres (PostgreSQL) 15.18 (Debian ...)"
  version=$(postgres --version)
  version=${version#* * }
  if [ "$made_by" != "${version%%[!0-9]*}" ]; then
    fail "the data directory was made by PostgreSQL $made_by, and this is PostgreSQL ${version%%[!0-9]*}:" \
      "set spec.version to $made_by, or dump the database and restore it into a new PostgreSQL"
  fi
}

check_foreign() {
  if [ -e "$DATA" ] && [ ! -e "$DATA/PG_VERSION" ]; then
    fail "$DATA exists and is no data directory: remove it, or restore its file PG_VERSION"
  fi
}

# initialize makes the data directory of a new, empty database. Passwords are set by ready.sh.
initialize() {
  log "initializing a new database"
  rm -rf "$DATA.new"
  initdb --pgdata="$DATA.new" --username=postgres --auth-local=trust --auth-host=scram-sha-256 \
    --encoding=UTF8 --locale=C.UTF-8 --data-checksums >&2
  mv "$DATA.new" "$DATA"
}

# clone copies the data directory of the server with this ordinal.
clone() {
  log "cloning the data of server $1"
  rm -rf "$DATA.new"
  # In the background, because a shell handles signals only between commands.
  pg_basebackup --pgdata="$DATA.new" --wal-method=stream --checkpoint=fast --write-recovery-conf --no-password \
    --dbname="$(conninfo "$1")" >&2 &
  child=$!
  trap 'kill "$child" 2>/dev/null || true; wait "$child" || true; exit 143' TERM INT
  wait "$child" || fail "server $1 could not be cloned"
  trap 'exit 143' TERM INT
  if [ "$ORDINAL" = 0 ]; then
    # The end of this recovery begins a new timeline, which the other standbys follow.
    rm -f "$DATA.new/standby.signal"
    : >"$DATA.new/recovery.signal"
  fi
  mv "$DATA.new" "$DATA"
}

# peer_with_data prints the ordinal of another server that runs, and so has data.
peer_with_data() {
  peer=1
  while [ "$peer" -lt "$MAX_REPLICAS" ]; do
    if runs "$peer"; then
      echo "$peer"
      return
    fi
    peer=$((peer + 1))
  done
  return 1
}

# prepare_primary makes the data directory of the primary. A primary that lost its volume waits for a person: an empty
# database would hide the data of standbys, and only a person knows which standby is the right one. The operator makes the
# file "initialized" when the database was ready once. Standbys that do not answer yet can have the data, too.
prepare_primary() {
  [ ! -e "$DATA" ] || return 0
  failover="kubectl exec $POD_NAME -- sh $SCRIPTS/failover.sh"
  if peer=$(peer_with_data); then
    advice="server $peer has data: to restore the data from it, run $failover $peer"
  elif [ -e "$SCRIPTS/initialized" ]; then
    advice="the database had data: to restore the data from a standby that runs, run"
    advice="$advice $failover <its ordinal>; to begin with an empty database, run $failover new"
  else
    initialize
    return
  fi
  : >"$RUN/awaiting-failover" # Before the advice, which may be followed at once.
  log "the volume is empty, and $advice"
  until [ -s "$RUN/failover" ]; do sleep "${POLL_SECONDS:-2}"; done
  choice=$(cat "$RUN/failover")
  rm -f "$RUN/failover" "$RUN/awaiting-failover"
  if [ "$choice" = new ]; then initialize; else clone "$choice"; fi
}

# has_room reports whether a clone of the primary fits into the volume beside the old data, with a reserve for WAL.
has_room() {
  size=$(primary_sql --command='SELECT (sum(pg_database_size(oid)) / 1024 * 1.1)::bigint FROM pg_database') || return 1
  free=$(df -P -k "$VOLUME" | awk 'NR == 2 { print $4 }')
  [ "$free" -gt $((size + 3 * $(size_of_wal) * 1024)) ]
}

# prepare_standby makes the data directory of a standby, or removes one that cannot follow the primary (see live.sh). Data
# of another database than the primary's is never removed. Old data is kept until the clone is complete, if there is room.
prepare_standby() {
  if [ -e "$VOLUME/reclone" ]; then
    await_primary
    system=$(primary_sql --command='SELECT system_identifier FROM pg_control_system()')
    if [ -e "$DATA" ] && [ "$system" = "$(system_identifier)" ]; then
      rm -rf "$DATA.old"
      mv "$DATA" "$DATA.old"
    fi
    rm -f "$VOLUME/reclone"
  fi
  if [ ! -e "$DATA" ]; then
    await_primary
    rm -rf "$DATA.new"
    if [ -e "$DATA.old" ] && ! has_room; then rm -rf "$DATA.old"; fi
    clone 0
  fi
  rm -rf "$DATA.old"
  : >"$DATA/standby.signal"
}

# size_of_wal prints a tenth of the volume in MB, between 96 and 4096. The primary keeps that much WAL for standbys. There
# are no replication slots, because a slot of a standby that is gone fills the volume.
size_of_wal() {
  df -P -k "$VOLUME" | awk 'NR == 2 { mb = int($2 / 10240); print (mb < 96 ? 96 : (mb > 4096 ? 4096 : mb)) }'
}

# write_configuration writes the main configuration file. The file that initdb made comes first. Arguments of the server and
# ALTER SYSTEM have precedence over both.
write_configuration() {
  printf "include_if_exists = '%s'\n" "$DATA/postgresql.conf" "$SCRIPTS/parameters.conf" >"$RUN/postgresql.conf"
  configuration | sha256sum >"$RUN/configured"
}

# setting prints a setting of this server. It fails if the server refuses its configuration.
setting() { postgres -D "$DATA" -c config_file="$RUN/postgresql.conf" -C "$1"; }

# The first process of a container ignores signals that have no handler.
trap 'exit 143' TERM INT
mkdir -p "$VOLUME" "$RUN"
chmod 0700 "$RUN" 2>/dev/null || true # A volume can belong to root, and be writable by the group.
: >"$RUN/preparing"
rm -f "$RUN/applied" "$RUN/held" "$RUN/failover" "$RUN/awaiting-failover"
write_passfile
check_foreign
check_major
if [ "$ORDINAL" = 0 ]; then prepare_primary; else prepare_standby; fi
check_major

wal=${WAL_MB:-$(size_of_wal)}
keep=wal_keep_size=${wal}MB
if [ "$(cat "$DATA/PG_VERSION")" = 12 ]; then keep=wal_keep_segments=$((wal / 16)); fi
address_of "$ORDINAL"
own_port=$port
# A restored volume can get the permissions of the group, with which PostgreSQL refuses to start.
chmod 0700 "$DATA" 2>/dev/null || true
write_configuration
setting max_connections >/dev/null || fail "the server refuses its configuration: correct spec.parameters"
set --
if [ "$ORDINAL" != 0 ]; then
  primary_settings >"$RUN/settings"
  while read -r name value; do
    if [ "$(setting "$name")" -lt "$value" ]; then set -- "$@" -c "$name=$value"; fi
  done <"$RUN/settings"
fi
access=$SCRIPTS/pg_hba.conf
if [ -n "${TLS:-}" ]; then
  set -- "$@" -c ssl=on -c ssl_min_protocol_version=TLSv1.2 -c ssl_cert_file="$CERTIFICATE/tls.crt" -c ssl_key_file="$CERTIFICATE/tls.key"
fi
if [ "${TLS:-}" = required ]; then
  access=$RUN/pg_hba.conf
  sed 's/^host /hostssl /' "$SCRIPTS/pg_hba.conf" >"$access"
fi
# A primary that restarts has another address, and the old one may not answer. connect_timeout does not bound the attempts of a
# standby to connect, but tcp_user_timeout (milliseconds) does. It also ends a connection on which data is not acknowledged, and a
# standby sends its status every two seconds.
follow="$(conninfo 0) tcp_user_timeout=10000"
rm -f "$RUN/preparing"
exec postgres -D "$DATA" "$@" -c config_file="$RUN/postgresql.conf" -c listen_addresses="$LISTEN" -c port="$own_port" \
  -c unix_socket_directories="$RUN" -c unix_socket_permissions=0700 -c hba_file="$access" -c password_encryption=scram-sha-256 \
  -c wal_level=replica -c hot_standby=on -c max_wal_senders=10 -c "$keep" -c max_wal_size="${wal}MB" \
  -c primary_conninfo="$follow" -c wal_receiver_status_interval=2s -c restore_command=false -c recovery_target_timeline=latest -c logging_collector=off
