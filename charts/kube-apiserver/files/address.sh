#!/bin/sh
# Chooses this pod's private address 127.x.y.z, where no other instance on the node listens; writes it for fileKeyRef.
set -eu
file=/run/kube-apiserver/address.env
# The same pod keeps its address: its other containers may be running when this one is restarted.
if [ -s "$file" ]; then exit 0; fi
while :; do
  # Never 127.0.*.*: localhost and the node's resolver use it.
  set -- $(od -An -N3 -tu1 /dev/urandom)
  a=$(($1 % 254 + 1)) b=$2 c=$(($3 % 254 + 1))
  # /proc/net/tcp shows addresses in reverse, in hexadecimal.
  if ! grep -q "$(printf ' %02X%02X%02X7F:' "$c" "$b" "$a")" /proc/net/tcp; then break; fi
done
printf "PRIVATE_ADDRESS='127.%d.%d.%d'\n" "$a" "$b" "$c" > "$file.new"
mv "$file.new" "$file"
cat "$file"
