# How much memory a policy takes offline, block by block, under a load that comes and goes (guest/phases.sh). Policies:
# `pools`, `none`, and those of guest/offliner.c for which no host is needed.
# memory: 4G
# icount: 0
# packages: util-linux/chmem

. /phases.sh

offline_by_zone() {
  for folder in $(grep -l offline "$memory"/memory[0-9]*/state); do
    echo "$(cut -d ' ' -f 1 "${folder%state}valid_zones") 131072"
  done
}

start_policy() {
  case $policy in
    none) sleep 1000000 & ;;
    pools) rampart banks pools --apply --dwell 2s >/run.log 2>&1 & ;;
    *) offliner "$policy" >/run.log 2>&1 & ;;
  esac
  keeper=$!
}

play_phases
