#!/bin/sh
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Restores the data of a primary that lost its volume. Run in the pod with ordinal 0:
#
#   sh /scripts/failover.sh 1     clones the standby with ordinal 1, and makes the clone the primary
#   sh /scripts/failover.sh new   makes a new, empty database
. "${0%/*}/lib.sh"

case ${1:-} in
[1-9] | new) ;;
*) fail "usage: failover.sh <ordinal of a standby> | new" ;;
esac
[ -e "$RUN/awaiting-failover" ] || fail "this server does not wait for a failover: it has data, or its database is new"
[ "$1" = new ] || is_up "$1" || fail "server $1 does not answer: name a standby that runs"
echo "$1" >"$RUN/failover.$$"
mv "$RUN/failover.$$" "$RUN/failover"
