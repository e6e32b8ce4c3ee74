#!/bin/sh
# Prepares the pod, beside the file ADDRESS_FILE:
# - the pod's private address 127.x.y.z, where no other instance on the node listens, in that file;
# - in `files`, a shell with its libraries, with which kube-apiserver's container, whose image has none, starts with it;
# - there too, the proxy's script and configuration: a pod keeps what it began with when the ConfigMap changes;
# - with TOKEN_FILE, a token for its kube-apiserver there: no other instance accepts it, and it ends with the pod.
# The same pod keeps all of it: its other containers may be running when this one is restarted.
set -eu
umask 077
random() { od -An -v -N"$1" -t"$2" /dev/urandom; }

# Whether a folder has it all, and its shell runs: a power cut may have come before its data was on the disk.
complete() {
  for file in $own; do
    if [ ! -s "$1/$file" ]; then return 1; fi
  done
  "$1/loader" --library-path "$1" "$1/sh" -c :
}

# This image's /bin/sh, and what `ldd` says that it needs: a loader, and libraries under the names by which it asks.
prepare() {
  rm -rf "$1.new"
  mkdir "$1.new"
  for file in $own; do cp "$(dirname "$0")/$file" "$1.new/"; done
  cp /bin/sh "$1.new/sh"
  for library in $(ldd /bin/sh | grep -o '/[^ ]*'); do
    cp "$library" "$1.new/"
    case $library in */ld-*) cp "$library" "$1.new/loader" ;; esac
  done
  # Here, where its end says why: kube-apiserver's container could only say that it can't start.
  complete "$1.new" || {
    echo "kube-apiserver can't be started: the shell that starts it doesn't run as a copy (above). The kubelet's folder" \
      "of volumes must not be mounted with noexec, and /bin/sh of haproxy.image needs its loader." >&2
    exit 1
  }
  sync "$1.new"/*
  rm -rf "$1"
  mv "$1.new" "$1"
}

own='proxy.sh check.cfg front.cfg http2.cfg start.sh'
folder=$(dirname "$ADDRESS_FILE")
complete "$folder/files" 2>/dev/null || prepare "$folder/files"
if [ -n "${TOKEN_FILE:-}" ] && [ ! -s "$TOKEN_FILE" ]; then
  # No group: its user is one of `system:authenticated`, and no more than that.
  user=upgrader:kube-apiserver-proxy
  printf '%s,%s,%s\n' "$(random 32 x1 | tr -d ' \n')" "$user" "$user" > "$TOKEN_FILE.new"
  mv "$TOKEN_FILE.new" "$TOKEN_FILE"
fi
if [ -s "$ADDRESS_FILE" ]; then exit 0; fi
while :; do
  # Never 127.0.*.*: localhost and the node's resolver use it.
  set -- $(random 3 u1)
  a=$(($1 % 254 + 1)) b=$2 c=$(($3 % 254 + 1))
  # /proc/net/tcp shows addresses in reverse, in hexadecimal.
  if ! grep -q "$(printf ' %02X%02X%02X7F:' "$c" "$b" "$a")" /proc/net/tcp; then break; fi
done
printf "PRIVATE_ADDRESS='127.%d.%d.%d'\n" "$a" "$b" "$c" > "$ADDRESS_FILE.new"
mv "$ADDRESS_FILE.new" "$ADDRESS_FILE"
cat "$ADDRESS_FILE"
