#!/bin/sh
# Starts kube-apiserver at the pod's private address, and passes on the kubelet's signal to end.
#   start.sh kube-apiserver FLAG...
# Only builtins: kube-apiserver's image has no programs. Its container runs this by the shell that address.sh has copied.
set -u
runtime=${0%/files/*}
told=''
. "$runtime/address.env"
trap 'told=yes' TERM INT HUP QUIT USR1 USR2 # or the stop signal that a vendor's image names
"$@" --bind-address="$PRIVATE_ADDRESS" &
server=$!
[ "$told" ] || wait "$server"
code=$?
if [ "$told" ]; then
  trap '' TERM INT HUP QUIT USR1 USR2 # not before kube-apiserver has started: it would ignore the signal, too
  # When proxy.sh moves clients, it sees that this process has stopped, and lets it go on once HTTP/2 clients pause: a
  # busy node may deliver the pod's signals seconds apart. One that was killed leaves its file, and lets nothing go on.
  if read -r proxy < "$runtime-proxy/ending" && kill -0 "$proxy"; then kill -STOP $$; fi 2>/dev/null
  kill -TERM "$server" 2>/dev/null # it may have ended on its own
  wait "$server"
  code=$?
fi
exit "$code"
