#!/bin/sh
# Starts Rollcall in the container of docker-compose.yml. The first start makes the token of the operating API, in the file that
# ROLLCALL_HTTP_TOKEN_FILE names: in the volume, so that it stays.
set -eu
file=$ROLLCALL_HTTP_TOKEN_FILE
if [ ! -s "$file" ]; then
  umask 077
  # renamed when complete, so that a start that is killed leaves no short token
  od -An -vtx1 -N32 /dev/urandom | tr -d ' \n' >"$file.new"
  mv "$file.new" "$file"
fi
echo "The console is at http://localhost:8477. This command prints its token: docker compose exec rollcall cat $file"
exec rollcall start
