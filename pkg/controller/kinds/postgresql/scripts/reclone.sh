#!/bin/sh
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Gives up the data of a standby that does not follow the primary, and clones the primary. Run in the pod of a standby that
# may have data that the primary lacks:
#
#   sh /scripts/reclone.sh
. "${0%/*}/lib.sh"

[ "$ORDINAL" != 0 ] || fail "this server is the primary: see failover.sh"
streams=$(local_sql --command="SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'")
[ "$streams" = 0 ] || fail "this standby follows the primary"
: >"$VOLUME/reclone"
pg_ctl stop --pgdata="$DATA" --mode=fast --no-wait >/dev/null
