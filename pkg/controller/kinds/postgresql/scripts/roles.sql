-- The database, its owner, and the role of standbys. The primary runs this when it starts, and when the Secret changes.
-- No log and no statistics get the passwords.
SET log_statement = 'none';
SET log_min_duration_statement = -1;
SET log_min_error_statement = 'panic';
SET pg_stat_statements.track_utility = off;
SET synchronous_commit = local;

\set owner `printf %s "$OWNER"`
\set database `printf %s "$DATABASE"`
\set password `cat "$CREDENTIALS/password"`
\set replication_password `cat "$REPLICATION_PASSWORD_FILE"`

SELECT format('CREATE ROLE %I', :'owner') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'owner') \gexec
ALTER ROLE :"owner" LOGIN PASSWORD :'password';
SELECT format('CREATE DATABASE %I OWNER %I', :'database', :'owner')
  WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec

SELECT 'CREATE ROLE replication' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'replication') \gexec
ALTER ROLE replication LOGIN REPLICATION PASSWORD :'replication_password';
-- For live.sh, which looks at the WAL that the primary has.
GRANT pg_monitor TO replication;
