-- Whether a standby of this primary can never follow it again. The last 16 digits of a file name of WAL are its position.
SELECT (SELECT system_identifier FROM pg_control_system()) = :'system'::bigint
   AND (pg_current_wal_lsn() < :'position'::pg_lsn
        OR NOT EXISTS (SELECT FROM pg_ls_waldir() WHERE substr(name, 9) = substr(pg_walfile_name(:'position'), 9)));
