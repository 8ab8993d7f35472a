# The liveness probe. A server is alive while its data directory is prepared, while it recovers, and while it accepts
# connections. A standby that can never follow the primary again is stopped, and cloned by start.sh.
. "${0%/*}/lib.sh"

[ ! -e "$RUN/preparing" ] || exit 0

# pg_isready returns 1 while a server starts, recovers or has no free connection.
address_of "$ORDINAL"
status=0
pg_isready --quiet --timeout=5 --host="$RUN" --port="$port" || status=$?
[ "$status" -le 1 ] || fail "the server does not answer"
[ "$ORDINAL" != 0 ] && [ "$status" = 0 ] || exit 0

# A standby can never follow again if it belongs to the database of the primary, and the primary no longer has the WAL
# that the standby needs next, or never had it (after a failover).
read_position='SELECT greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
  WHERE NOT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = $$streaming$$)'
position=$(local_sql --command="$read_position") || exit 0
[ -n "$position" ] || exit 0
lost=$(primary_sql --set=position="$position" --set=system="$(system_identifier)" --file="$SCRIPTS/lost.sql") || exit 0
[ "$lost" = t ] || exit 0
: >"$VOLUME/reclone"
pg_ctl stop --pgdata="$DATA" --mode=fast --no-wait >/dev/null
fail "the primary does not have the WAL at $position, so the standby is cloned again"
