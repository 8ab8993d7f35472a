#!/bin/sh
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Uploads the dump, compares the stored file with it, and then deletes the dumps that are older than the retention.

. "${0%/*}/lib.sh"

# prune deletes dumps of this Backup by the time in their names. Other files, and the newest dump, are never deleted.
prune() {
	oldest=$(date -u -d "@$(($(date +%s) - BACKUP_RETENTION_SECONDS))" +%Y%m%d%H%M%S)
	transfer lsf --files-only --include "/$BACKUP_NAME-*" "$(destination)" >"$BACKUP_DIR/.list" ||
		prune_failed 'the stored dumps cannot be listed'
	while read -r old; do
		if ! is_dump "$old" || [ "$old" = "$name" ]; then continue; fi
		time=${old#"$BACKUP_NAME-"}
		time=${time%%Z*}
		if [ "${time%T*}${time#*T}" -ge "$oldest" ]; then continue; fi
		transfer deletefile "$(destination)/$old" || prune_failed "$old cannot be deleted"
		echo "deleted $old, which is older than the retention"
	done <"$BACKUP_DIR/.list"
}

prune_failed() {
	report
	fail 24 "$name is stored, but $1: $(cause)"
}

name=
for file in "$BACKUP_DIR/$BACKUP_NAME"-*; do
	if is_dump "${file##*/}"; then name=${file##*/}; fi
done
if [ -z "$name" ]; then fail 11 'there is no dump to upload'; fi
transfer copyto "$BACKUP_DIR/$name" "$(destination)/$name" || destination_failed 22 'the upload failed'
transfer check --one-way --max-depth 1 --include "/$name" "$BACKUP_DIR" "$(destination)" || destination_failed 23 'the stored file differs from the dump'
echo "stored $name in $(destination)"
prune
