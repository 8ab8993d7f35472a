#!/bin/sh
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# The liveness probe. A server is alive while its data directory is prepared, while it recovers, and while it accepts
# connections. A standby that lacks WAL that the primary no longer has is stopped, and cloned by start.sh.
. "${0%/*}/lib.sh"

[ ! -e "$RUN/preparing" ] || exit 0

# pg_isready returns 1 while a server starts, recovers or has no free connection.
address_of "$ORDINAL"
status=0
pg_isready --quiet --timeout=5 --host="$RUN" --port="$port" || status=$?
[ "$status" -le 1 ] || fail "the server does not answer"
[ "$ORDINAL" != 0 ] && [ "$status" = 0 ] || exit 0

# A standby pauses when the primary raises one of these settings. It takes the settings of the primary when it starts.
if [ "$(local_sql --command='SELECT pg_is_wal_replay_paused()')" = t ]; then
  primary_settings | while read -r name value; do
    [ "$(local_sql --command="SELECT current_setting('$name')::int < $value")" != t ] || exit 1
  done || {
    pg_ctl stop --pgdata="$DATA" --mode=fast --no-wait >/dev/null
    fail "the primary has raised a setting, so the standby is restarted"
  }
fi

# A standby that belongs to the database of the primary can never follow again if the primary no longer has the WAL that the
# standby needs next, or never had it (after a failover). Only in the first case is the data of the standby also the primary's.
read_position='SELECT greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()),
  (SELECT lpad(upper(to_hex(timeline_id)), 8, $$0$$) FROM pg_control_checkpoint())
  WHERE NOT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = $$streaming$$)'
position=$(local_sql --command="$read_position") || exit 0
if [ -z "$position" ]; then
  rm -f "$RUN/held"
  exit 0
fi
verdict=$(primary_sql --set=position="${position%|*}" --set=timeline="${position#*|}" --set=system="$(system_identifier)" \
  --file="$SCRIPTS/lost.sql") || exit 0
case $verdict in
behind*) ;;
ahead* | diverged*)
  echo "it stands at ${position%|*} and the primary at ${verdict#*|}, so it may have data that the primary lacks: save that" \
    "data, then run kubectl exec $POD_NAME -- sh $SCRIPTS/reclone.sh" >"$RUN/held"
  exit 0
  ;;
*) exit 0 ;;
esac
: >"$VOLUME/reclone"
pg_ctl stop --pgdata="$DATA" --mode=fast --no-wait >/dev/null
fail "the primary does not have the WAL at ${position%|*}, so the standby is cloned again"
