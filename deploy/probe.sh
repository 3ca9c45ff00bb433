#!/bin/bash
# Succeeds if a server on this machine answers 200: probe PORT PATH.
set -euo pipefail
exec 3<> "/dev/tcp/127.0.0.1/$1"
printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$2" >&3
read -r -t 4 _ status _ <&3
[[ $status == 200 ]]
