# Sourced: `shown WHAT COMMAND…` runs a command that takes minutes and shows that it goes on.
#
# On a terminal its last line of output moves along in one line; elsewhere a plain line says every few seconds how far it
# is. When the command fails, the end of its output follows, and `shown` ends with its exit code.

SHOWN_EVERY_S=${SHOWN_EVERY_S:-5}   # between two plain lines
SHOWN_LINES=40                      # of the output of a command that failed

shown() {
  local what=$1 begun=$SECONDS kept code=0
  shift
  kept=$(mktemp)
  echo "towtank: $what …" >&2
  # Not in the background: there Ctrl-C would not reach it.
  "$@" 2>&1 | tee "$kept" | shown_line_by_line || code=${PIPESTATUS[0]}
  if [ "$code" -ne 0 ]; then
    tail -n "$SHOWN_LINES" "$kept" >&2
    echo "towtank: $what: failed with exit code $code" >&2
  else
    echo "towtank: $what: done ($((SECONDS - begun)) s)" >&2
  fi
  rm -f "$kept"
  return "$code"
}

shown_line_by_line() {
  local line last="" begun=$SECONDS said=$SECONDS spent status width
  width=$(stty size <&2 2>/dev/null | cut -d ' ' -f 2)
  [ "${width:-0}" -ge 20 ] || width=80
  while true; do
    status=0
    IFS= read -r -t 1 line || status=$?
    [ -z "$line" ] || last=$line
    spent=$((SECONDS - begun))
    if [ -t 2 ]; then
      printf '\r\033[K  %s s  %s' "$spent" "$(printf '%s' "$last" | tr -cd '[:print:]' | cut -c "1-$((width - 14))")" >&2
    elif [ $((SECONDS - said)) -ge "$SHOWN_EVERY_S" ]; then
      printf 'towtank:   %s s: %s\n' "$spent" "$last" >&2
      said=$SECONDS
    fi
    [ "$status" -eq 0 ] || [ "$status" -gt 128 ] || break   # above 128: only no line within the second
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}
