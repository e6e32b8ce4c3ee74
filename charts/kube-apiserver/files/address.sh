#!/bin/sh
# Chooses this pod's private address 127.x.y.z, where no other instance on the node listens; writes it for fileKeyRef.
# With TOKEN_FILE, also writes a token for its kube-apiserver there: no other instance accepts it, and it ends with the
# pod.
set -eu
umask 077
file=/run/kube-apiserver/address.env
random() { od -An -v -N"$1" -t"$2" /dev/urandom; }
# The same pod keeps both: its other containers may be running when this one is restarted.
if [ -n "${TOKEN_FILE:-}" ] && [ ! -s "$TOKEN_FILE" ]; then
  # No group: its user is one of `system:authenticated`, and no more than that.
  user=upgrader:kube-apiserver-proxy
  printf '%s,%s,%s\n' "$(random 32 x1 | tr -d ' \n')" "$user" "$user" > "$TOKEN_FILE.new"
  mv "$TOKEN_FILE.new" "$TOKEN_FILE"
fi
if [ -s "$file" ]; then exit 0; fi
while :; do
  # Never 127.0.*.*: localhost and the node's resolver use it.
  set -- $(random 3 u1)
  a=$(($1 % 254 + 1)) b=$2 c=$(($3 % 254 + 1))
  # /proc/net/tcp shows addresses in reverse, in hexadecimal.
  if ! grep -q "$(printf ' %02X%02X%02X7F:' "$c" "$b" "$a")" /proc/net/tcp; then break; fi
done
printf "PRIVATE_ADDRESS='127.%d.%d.%d'\n" "$a" "$b" "$c" > "$file.new"
mv "$file.new" "$file"
cat "$file"
