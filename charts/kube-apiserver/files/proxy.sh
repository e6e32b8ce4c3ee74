#!/bin/bash
# Keeps the public listener open exactly while this pod's own kube-apiserver is ready.
#   proxy.sh run     check forever; open and close the listener (the container's process)
#   proxy.sh stop    tell `run` to end, and wait until it has (preStop hook)
#   proxy.sh ready   exit 0 when the listener is open and the last check succeeded (readiness probe)
#   proxy.sh live    end a kube-apiserver whose /livez has failed for too long (liveness probe)
set -u
opened=/run/kube-apiserver/open # exists while the listener is open; holds its process id
# A pod of an earlier chart, whose volume gets this file too, has the address in its environment.
if [[ ${ADDRESS_FILE-} ]]; then
  source "$ADDRESS_FILE" # what address.sh chose
  export PRIVATE_ADDRESS
  opened=/run/kube-apiserver-proxy/open
fi
ending=${opened%/*}/ending # exists while clients are moved, and holds this process's id: start.sh waits for it then
running=${opened%/*}/running # holds the process id of `run`, until no connection needs it any more
stopping=${opened%/*}/stopping # holds that of `stop`
export ANY_ADDRESS=0.0.0.0
if [[ $HOST_IP == *:* ]]; then ANY_ADDRESS=::; fi
export STATE=${opened%/*} # folder of what HAProxy's processes share
config=$(dirname "${BASH_SOURCE[0]}")
# Container runtimes send the stop signal that the image names in place of TERM: HAProxy's official image names USR1, and
# other images of servers and init systems the rest. By default, each but WINCH would end this script at once.
STOP_SIGNALS='TERM INT HUP QUIT USR1 USR2 WINCH PWR RTMIN+3'
own_listener='' # of this pod's kube-apiserver, once it has been looked for

# Sets STATUS (UP, DOWN…), CHECK and CODE (result and HTTP status of the last check) and LASTS (for how many seconds) of
# a backend. Fails when the checker doesn't answer.
look() {
  local - page='' line
  local -a column
  STATUS='' CHECK='' CODE='' LASTS=0
  {
    printf 'GET /status;csv HTTP/1.0\r\n\r\n' >&3
    # -N reads blocks; by lines, bash asks the kernel for each byte.
    read -r -t 2 -N 65536 page <&3
  } 2>/dev/null 3<>"/dev/tcp/$PRIVATE_ADDRESS/$STATUS_PORT"
  set -f # "* L7OK" is a text
  local IFS=$'\n'
  for line in $page; do
    if [[ $line == "$1,own,"* ]]; then
      IFS=,
      # shellcheck disable=SC2206
      column=($line)
      STATUS=${column[17]} LASTS=${column[23]} CHECK=${column[36]#\* } CODE=${column[37]}
      break
    fi
  done
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

# An address as /proc/net/tcp and tcp6 show it: in hexadecimal, each 32 bits in reverse.
in_hexadecimal() {
  local IFS=. word left right missing result=''
  if [[ $1 != *:* ]]; then
    set -- $1
    printf '%02X%02X%02X%02X' "$4" "$3" "$2" "$1"
    return
  fi
  IFS=:
  left=(${1%%::*}) right=()
  if [[ $1 == *::* ]]; then right=(${1#*::}); fi
  missing=$((8 - ${#left[@]} - ${#right[@]}))
  while ((missing-- > 0)); do left+=(0); done
  for word in "${left[@]}" "${right[@]}"; do result+=$(printf '%04X' "0x$word"); done
  for word in 0 8 16 24; do
    printf '%s' "${result:word+6:2}${result:word+4:2}${result:word+2:2}${result:word:2}"
  done
}

# Sockets that listen at ADDRESS PORT, as /proc/net/tcp shows them: 0A is LISTEN. OR is another address, "|" before it.
listening() { # ADDRESS PORT [OR]
  printf ': (%s%s):%04X [0:]+ 0A ' "$(in_hexadecimal "$1")" "${3-}" "$2"
}

# How many sockets listen at ADDRESS PORT; also those at "0.0.0.0" and [::] that would take its connections.
listeners() {
  local any=''
  if [[ $1 == "$HOST_IP" ]]; then any='|0{32}'; fi
  if [[ $any && $1 != *:* ]]; then any+='|0{8}'; fi
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -cE "$(listening "$1" "$2" "$any")"
}

# Whether this pod's kube-apiserver exists at all. Checked without asking it, so that its end is known at once. Asked
# each second: one process, one file, up to the first line that matches.
serves() {
  local sockets=/proc/net/tcp
  if [[ $PRIVATE_ADDRESS == *:* ]]; then sockets=/proc/net/tcp6; fi
  own_listener=${own_listener:-$(listening "$PRIVATE_ADDRESS" "$API_PORT")}
  grep -qE "$own_listener" "$sockets"
}

# Another process listens where this pod's listener does: the next instance, the standby pod, or kubeadm's static pod on
# all addresses.
succeeded() {
  (($(listeners "$HOST_IP" "$API_PORT") > 1))
}

# The same, also once this pod's own listener has closed.
followed() {
  local own=0
  if [[ -e $opened ]]; then own=1; fi
  (($(listeners "$HOST_IP" "$API_PORT") > own))
}

# Whether clients are better off without this listener. A server that doesn't exist is of no use. One that is slow, or
# not ready, may be short of etcd or of CPU, and so may all others: while no other process listens here, a slow answer
# is better than none, and load balancers have their own checks. A checker that doesn't answer says nothing about the
# server.
lost() {
  serves || return 0
  [[ $CHECK ]] && succeeded && ((LASTS >= 10))
}

# What this pod's own kube-apiserver, and no other, accepts (see address.sh); nothing where health.token is off.
own_token() {
  local token=''
  if [[ ${TOKEN_FILE-} ]]; then IFS=, read -r token _ < "$TOKEN_FILE"; fi
  printf '%s' "$token"
}

# Clients whose connections aren't HTTP/2: HAProxy takes these to kube-apiserver from the private address (front.cfg).
# The kernel shows its table in pieces, and can leave out a line when others go meanwhile: the larger of two counts.
others() {
  local private count most=0
  private=$(in_hexadecimal "$PRIVATE_ADDRESS")
  for _ in 1 2; do
    count=$(grep -cE ": $private:[0-9A-F]{4} $private:$(printf '%04X' "$API_PORT") 01 " /proc/net/tcp)
    if ((count > most)); then most=$count; fi
  done
  echo "$most"
}

now() { echo "$((${EPOCHREALTIME/[.,]/} / 1000))"; } # in milliseconds

# While HTTP/2 connections pause, what either side sends waits in this node's buffers.
pause_http2() { kill -STOP "$relay" 2>/dev/null; }
resume_http2() { kill -CONT "$relay" 2>/dev/null; }

# Waits until kube-apiserver closes its connections, and listens no more. HTTP/2 clients have a GOAWAY then, which says
# that what they sent during the pause isn't processed: they repeat it at the successor on their own.
until_goaway() {
  local latest=$(($(now) + 3000))
  while serves && (($(now) < latest)); do sleep 0.02; done
  sleep 0.05
  resume_http2
}

# Sets STARTER, which passes the kubelet's signal on to kube-apiserver (start.sh); a pod of an earlier chart has
# none. By its script: `kubectl exec` can run the same shell.
find_starter() {
  local process
  local -a words
  STARTER=''
  for process in /proc/[0-9]*; do
    mapfile -d '' words < "$process/cmdline" # loader --library-path FOLDER SHELL SCRIPT
    if [[ ${words[4]-} == "$config/start.sh" ]]; then
      STARTER=${process#/proc/}
      return
    fi
  done 2>/dev/null
}

# Whether kube-apiserver's end signal, which is due at a time, has come: the starter has stopped. Without a starter, a
# fifth of a second before that time is all that can be known. True also when kube-apiserver has ended on its own.
signalled() {
  local state=''
  if [[ -z $STARTER ]]; then
    (($(now) >= $1 - 200))
    return
  fi
  read -r state 2>/dev/null < "/proc/$STARTER/stat" || return 0
  [[ $state == *') T '* ]]
}

pass_signal_on() {
  if [[ $STARTER ]]; then kill -CONT "$STARTER" 2>/dev/null; fi
}

# Moves existing connections to the successor, without a lost request, when kube-apiserver gets its end signal, which is
# due at a time. From then on it answers any request with 429 and `Retry-After: 5`, until none is in flight and all
# watches have ended. Then it sends GOAWAY to HTTP/2 clients, and closes all connections. So HTTP/2 clients should ask
# nothing before they have their GOAWAY, and all others must ask something: only the 429 tells them that their connection
# ends.
move() {
  local held='' signal
  trap '' PIPE
  until (($(now) >= $1 - 2000)); do
    sleep 0.1
    # Up to five seconds early isn't short: a busy node may begin this container's hook that much later than the other.
    if ! serves || { (($(now) < $1 - 5000)) && signalled "$1"; }; then
      hurry "$1"
      return
    fi
  done
  if ((HOLD_SECONDS > 0)) && [[ $(own_token) ]] && { ! followed || (($(others) > 0)); }; then
    send_held_request && held=yes
  fi
  until signalled "$1"; do sleep 0.02; done
  if followed; then pause_http2; fi
  sleep 0.2 # kube-apiserver reads what was sent before
  signal=$(now)
  pass_signal_on
  if [[ $held ]]; then
    hold "$signal"
  elif followed; then
    say "kube-apiserver's end was not held back: $(others) connections were not HTTP/2"
  else
    return
  fi
  until_goaway
}

# kube-apiserver has its end signal long before it was due, or has ended. The signal came at the end of a grace period
# that is shorter than the drain: the kubelet gives two more seconds, in which there is no time for a pause, or for a
# hold. What is in flight ends in them, if it can, and 429 tells all other clients to try again.
hurry() {
  pass_signal_on
  if serves; then
    say "the pod's grace period was over $((($1 - $(now) + 500) / 1000)) s before gracefulShutdown.drainSeconds:" \
      "connections end within 2 s"
  fi
}

BODY='{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'

# All of a request but its body. Every authenticated user may send this one.
request_head() {
  printf '%s\r\n' 'POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1' 'Host: kube-apiserver' \
    "Authorization: Bearer $(own_token)" 'Content-Type: application/json' "Content-Length: ${#BODY}" \
    'Connection: close' ''
}

# kube-apiserver waits for the body before it ends. It reads it only after it has admitted the request.
send_held_request() {
  { exec 4<>"/dev/tcp/$PRIVATE_ADDRESS/$STATUS_PORT"; } 2>/dev/null && request_head >&4
}

# Whether kube-apiserver answers 429 by now, and not as it is busy: that is a 429 with other words.
refuses() {
  local answer=''
  {
    { request_head; printf '%s' "$BODY"; } >&5
    read -r -t 0.5 -N 4096 answer <&5
  } 2>/dev/null 5<>"/dev/tcp/$PRIVATE_ADDRESS/$STATUS_PORT"
  [[ $answer == *' 429 '*'shutting down'* ]]
}

# Makes kube-apiserver answer 429 for HOLD_SECONDS, or until only HTTP/2 connections are open. Otherwise it closes its
# kept connections once the last request in flight has ended: on a quiet cluster within half a second, and a client that
# writes less often writes into a closed connection. The 429 doesn't begin with the end signal (a time), but with the
# end of kube-apiserver's pre-shutdown hooks, which write to etcd: seconds later where etcd is slow. One second of these
# is added, no more: HTTP/2 waits, and leader elections with it.
hold() {
  local answer='' refused='' seen='it answered no 429' latest=$(($1 + (HOLD_SECONDS + 1) * 1000))
  while (($(now) < latest)); do
    if [[ ! $refused ]] && refuses; then
      refused=$(now)
      seen="it answered 429 from $(((refused - $1 + 500) / 1000)) s on"
      if ((refused + HOLD_SECONDS * 1000 < latest)); then latest=$((refused + HOLD_SECONDS * 1000)); fi
    fi
    read -r -t 0.1 answer <&4
    if (($? <= 128)); then # not the time-out
      say "keep-alive connections may break: kube-apiserver refused the request that holds its end back: ${answer%$'\r'}"
      return
    fi
    # Without a successor, "try again later" is better than no listener.
    if ! followed; then continue; fi
    pause_http2
    if (($(now) >= $1 + 300 && $(others) == 0)); then break; fi
  done
  printf '%s' "$BODY" >&4
  read -r -t 5 answer <&4
  say "held kube-apiserver's end back, $((($(now) - $1 + 500) / 1000)) s from its signal: ${answer%$'\r'}; $seen"
}

finish() {
  # A pod that you delete ends before its successor is ready. kube-apiserver drains, then answers 429 (retry later) for
  # a while: both are better than no listener at all.
  # shellcheck disable=SC2086
  trap '' $STOP_SIGNALS
  local mover hook
  find_starter
  echo $$ > "$ending"
  move "$((told + DRAIN_SECONDS * 1000))" & mover=$!
  while [[ -n $front ]] && ! succeeded && serves; do sleep 0.2; done
  say "told to stop: no new connections; existing ones end with kube-apiserver"
  close_listener
  wait "$mover"
  rm -f "$ending"
  pass_signal_on # should the mover have failed
  kill "$checker" 2>/dev/null
  kill -USR1 "$relay" 2>/dev/null
  # The kubelet ends this wait, and all open connections, when the pod's grace period is over.
  while [[ $(jobs -rp) ]]; do wait; done
  rm -f "$running"
  # The kubelet calls a hook failed that ends with its container.
  while read -r hook < "$stopping" && kill -0 "$hook"; do sleep 0.1; done 2>/dev/null
  say "done"
  exit 0
}

run() {
  front='' checker='' relay='' pause=0.2 told=''
  rm -f "$opened" "$ending" "$stopping"
  # No more than this: the time-out of a `read` that the signal interrupts would end whatever the trap does.
  # shellcheck disable=SC2086
  trap 'told=${told:-$((${EPOCHREALTIME/[.,]/} / 1000))}' $STOP_SIGNALS
  echo $$ > "$running"
  # An environment variable, as arguments are visible to every process of the node.
  TOKEN=$(own_token) haproxy -f "$config/check.cfg" -db & checker=$!
  haproxy -f "$config/http2.cfg" -db & relay=$!
  say "kube-apiserver is at $PRIVATE_ADDRESS; waiting until it is ready"
  while kill -0 "$checker" 2>/dev/null && kill -0 "$relay" 2>/dev/null; do
    if [[ $told ]]; then
      finish
    elif serves && up readyz; then
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
    [[ $told ]] || { sleep "$pause" & wait $!; }
  done
  say "the checker, or the process for HTTP/2, ended"
  close_listener
  exit 1
}

# The kubelet kills the container when the pod's grace period is over, but two seconds later if it has a preStop hook
# that runs until then. kube-apiserver's is such a hook; without one here, a grace period that is shorter than its drain
# would end all connections before kube-apiserver is told to end.
stop() {
  local script
  echo $$ > "$stopping"
  read -r script < "$running" && kill -TERM "$script" || return 0
  while [[ -e $running ]] && kill -0 "$script"; do sleep 0.2; done
} 2>/dev/null

ready() {
  local good='' found
  up readyz && good=yes
  # upgrader reads this: a check that is refused for long won't be answered ever (lasting_causes.py).
  found="/readyz: ${CHECK:-unknown}${CODE:+ $CODE}"
  [[ -e $opened ]] || { say "not listening: kube-apiserver is not ready ($found)"; exit 1; }
  [[ $good ]] || { say "kube-apiserver is ${STATUS:-unknown} ($found)"; exit 1; }
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
