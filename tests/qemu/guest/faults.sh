# Faults from outside in memory under test, for scenarios to include.

# A fault that changed something so often while its frame was claimed is one that a test met.
often=3
placed=${placed:-/tmp/placed}

# Fault number $1 of kind $2, in frames $3 and $4, in $fault; its victims go to $placed: NUMBER FRAME LINE BIT, or any
# for a line or a bit. Numbers differ in line, bit and value.
place() {
  line=$(($1 * 5 % 64))
  bit=$(($1 * 37 % 512))
  value=$(($1 % 2))
  case $(($1 / 2 % 2)) in 0) change=up ;; *) change=down ;; esac
  cell=$(cell_of "$3" $line $bit)
  victim="$(($4)) $(((line + 3) % 64)) $(((bit + 70) % 512))"
  case $2 in
    stuck-at) fault=$cell=$value ;;
    intermittent) fault=$cell=$value,intermittent=0.5 ;;
    retention) fault=$cell=$value,retention=300ms ;;
    transition) fault=$cell=$change ;;
    coupling-in) fault="$cell=$change>$(cell_of $victim)" ;;
    coupling-id) fault="$cell=$change>$(cell_of $victim)=$value" ;;
    address) fault=$(printf '%#x/%d>%#x/%d' "$3" $line "$4" $line) ;;
    aliased-frames) fault=$(printf '%#x>%#x' "$3" "$4") ;;
  esac
  case $2 in
    intermittent) fault=stuck-at@$fault ;;
    aliased-frames) fault=address@$fault ;;
    *) fault=$2@$fault ;;
  esac
  case $2 in
    coupling*) echo "$1 $victim" ;;
    address) printf '%s\n' "$1 $(($3)) $line any" "$1 $(($4)) $line any" ;;
    aliased-frames) printf '%s\n' "$1 $(($3)) any any" "$1 $(($4)) any any" ;;
    *) echo "$1 $(($3)) $line $bit" ;;
  esac >>"$placed"
}

cell_of() {
  printf '%#x/%d/%d' "$@"
}

# Adds $2 faults of kind $1 to memory that process $3 holds for a test, as soon as it holds $4 MiB; "stop" after that
# stops it meanwhile.
spoil() {
  kind=$1 count=$2
  claimed "$3" "$count" "$4" $5 >/tmp/frames || {
    cat /tmp/report
    report "fail $kind: the test ended before it held memory"
    return 1
  }
  : >"$placed"
  number=0
  faults=
  while read -r one other _; do
    each=$kind
    [ "$kind" != many ] ||
      each=$(echo stuck-at intermittent transition coupling-in coupling-id address | cut -d' ' -f$((number % 6 + 1)))
    place $number "$each" "$one" "$other"
    faults="$faults $fault"
    number=$((number + 1))
  done </tmp/frames
  badram add$faults
  [ -z "$5" ] || kill -CONT "$3"
}

# FRAME LINE-OR-BIT of the map, from its JSON: "line 123 7", "bit 123 65".
named() {
  rampart map show --json | awk '
    /^      "frame":/ { gsub(/[^0-9]/, ""); frame = $0 }
    /^      "lines": \[/ { what = "line" }
    /^      "bits": \[/ { what = "bit" }
    /^      \]/ { what = "" }
    what && /^        [0-9]/ { gsub(/[^0-9]/, ""); print what, frame, $0 }'
}

# The numbers of the faults of which the report has a victim.
reported() {
  awk 'FILENAME ~ /report/ { for (word = 1; word < NF; word++) if ($word == "frame") told[$(word + 1)]; next }
    sprintf("0x%x", $2) in told { print $1 }' /tmp/report "$placed"
}

# Sets $seldom to how many faults have acted less than $1 times, and of which the report says nothing. What is reported
# is not tested again and may never act often.
count_seldom() {
  badram acted
  reported >/tmp/reported
  seldom=0 number=0
  for count in ${answer#acted}; do
    [ "$count" -ge "$1" ] || grep -qx $number /tmp/reported || seldom=$((seldom + 1))
    number=$((number + 1))
  done
}

# Waits until every fault acted often, or $2 times, or is reported, as long as process $1 runs and at most $3 seconds
# (as many as the kernel's command line says), and ends it.
let_act() {
  patience=${3:-$seconds}
  while [ "$patience" -gt 0 ] && kill -0 "$1" 2>/dev/null; do
    sleep 1
    patience=$((patience - 1))
    count_seldom "${2:-$often}"
    [ $seldom -gt 0 ] || break
  done
  # What acted last is read, too.
  sleep 2
  kill "$1"
  wait "$1"
  code=$?
  grep -v '^bad ' /tmp/report | tail -n 3
}
