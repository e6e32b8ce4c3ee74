#!/bin/bash
# Keeps the public listener open exactly while this pod's own kube-apiserver is ready.
#   proxy.sh run     check forever; open and close the listener (the container's process)
#   proxy.sh ready   exit 0 when the listener is open and the last check succeeded (readiness probe)
#   proxy.sh live    end a kube-apiserver whose /livez has failed for too long (liveness probe)
set -u
config=/etc/kube-apiserver-proxy
opened=/run/kube-apiserver/open # exists while the listener is open; holds its process id

# Sets STATUS (UP, DOWN…), CHECK (result of the last check) and LASTS (for how many seconds) of a backend. Fails when
# the checker doesn't answer.
look() {
  local -a column
  STATUS='' CHECK='' LASTS=0
  {
    printf 'GET /;csv HTTP/1.0\r\n\r\n' >&3
    while IFS=, read -r -t 2 -a column <&3; do
      if [[ ${column[0]-} == "$1" && ${column[1]-} == own ]]; then
        STATUS=${column[17]} LASTS=${column[23]} CHECK=${column[36]#\* }
      fi
    done
  } 2>/dev/null 3<>"/dev/tcp/$PRIVATE_ADDRESS/$STATUS_PORT"
  [[ $STATUS ]]
}

# HAProxy considers a server UP until its first check: that is not enough here.
up() {
  look "$1" && [[ $STATUS == UP* && -n $CHECK && $CHECK != INI && $CHECK != UNK ]]
}

say() { echo "proxy: $*"; }

# Soft: the listener closes at once, connections end on their own.
close_listener() {
  rm -f "$opened"
  if [[ -n $front ]]; then kill -USR1 "$front" 2>/dev/null; fi
}

# How many sockets listen at ADDRESS PORT; also those at "0.0.0.0" and [::] that would take its connections. IPv4 only.
listeners() {
  local IFS=. port any=''
  port=$(printf '%04X' "$2")
  if [[ $1 == "$HOST_IP" ]]; then any='|0{8}|0{32}'; fi
  # /proc/net/tcp shows addresses in reverse, in hexadecimal; 0A is LISTEN.
  set -- $1
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -cE ": ($(printf '%02X%02X%02X%02X' "$4" "$3" "$2" "$1")$any):$port [0:]+ 0A "
}

# Whether this pod's kube-apiserver exists at all. Checked without asking it, so that its end is known at once.
serves() {
  (($(listeners "$PRIVATE_ADDRESS" "$API_PORT") > 0))
}

# Another process listens where this pod's listener does: the next instance, the standby pod, or kubeadm's static pod on
# all addresses.
succeeded() {
  [[ $HOST_IP != *:* ]] || return 0 # IPv6: not checked, always true
  (($(listeners "$HOST_IP" "$API_PORT") > 1))
}

# Whether clients are better off without this listener. A server that doesn't exist is of no use. One that is slow, or
# not ready, may be short of etcd or of CPU, and so may all others: while no other process listens here, a slow answer is
# better than none, and load balancers have their own checks. A checker that doesn't answer says nothing about the server.
lost() {
  serves || return 0
  [[ $CHECK ]] && succeeded && ((LASTS >= 10))
}

finish() {
  # A pod that you delete ends before its successor is ready. kube-apiserver drains, then answers 429 (retry later) for a
  # while: both are better than no listener at all.
  trap '' TERM INT
  while [[ -n $front ]] && ! succeeded && serves; do sleep 0.2; done
  say "told to stop: no new connections; kept ones end with kube-apiserver"
  close_listener
  kill "$checker" 2>/dev/null
  # The kubelet ends this wait, and all open connections, when the pod's grace period is over.
  while [[ $(jobs -rp) ]]; do wait; done
  say "done"
  exit 0
}

run() {
  front='' checker='' pause=0.2
  rm -f "$opened"
  trap finish TERM INT
  haproxy -f "$config/check.cfg" -db & checker=$!
  say "kube-apiserver is at $PRIVATE_ADDRESS; waiting until it is ready"
  while kill -0 "$checker" 2>/dev/null; do
    if serves && up readyz; then
      if [[ -z $front ]]; then
        haproxy -f "$config/front.cfg" -db & front=$!
        pause=1 # long enough for HAProxy to give up, when it can't start
      elif ! kill -0 "$front" 2>/dev/null; then
        wait "$front"
        say "the listener ended with $?: can't listen for clients (its own words are above)"
        exit 1
      elif [[ ! -e $opened ]]; then
        say "ready: listening for clients"
        echo "$front" > "$opened"
      fi
    elif [[ -n $front ]] && lost; then
      say "kube-apiserver is not ready any more (${STATUS:-unknown}, ${CHECK:-unknown}): not listening until it is"
      close_listener
      front='' pause=0.2
    fi
    sleep "$pause" & wait $!
  done
  say "the checker ended"
  close_listener
  exit 1
}

ready() {
  [[ -e $opened ]] || { say "not listening: kube-apiserver is not ready"; exit 1; }
  up readyz || { say "kube-apiserver: /readyz is $STATUS ($CHECK)"; exit 1; }
}

live() {
  look livez || { say "the checker doesn't answer"; exit 1; }
  [[ $STATUS == DOWN* ]] && ((LASTS >= RESTART_AFTER_SECONDS)) || exit 0
  local process signal=TERM
  ((LASTS < RESTART_AFTER_SECONDS + 30)) || signal=KILL
  for process in /proc/[0-9]*; do
    if [[ $(<"$process/comm") == kube-apiserver ]]; then kill -"$signal" "${process#/proc/}"; fi
  done 2>/dev/null
  say "kube-apiserver has not answered /livez for $LASTS s ($CHECK): sent SIG$signal"
  exit 1
}

"$1"
