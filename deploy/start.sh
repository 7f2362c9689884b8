#!/bin/sh
# Compiled code is part of the image. numba reads it from a directory that it can write to, so it is copied to /tmp.
set -eu
mkdir -p -m 0700 /tmp/numba
cp -a /opt/expunge/compiled/. /tmp/numba/
export NUMBA_CACHE_DIR=/tmp/numba
exec expunge "$@"
