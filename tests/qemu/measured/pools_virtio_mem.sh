# How much memory a host takes back by virtio-mem, without pools and without knowing which blocks are free, under a load
# that comes and goes (guest/phases.sh). guest/offliner.c says when it asks. Policies: `virtio-mem`, whose memory comes
# online in the kernel's default zone, as on a stock distribution; and `virtio-mem-movable`, in ZONE_MOVABLE.
# memory: 512M
# virtio-mem: 3584M
# icount: 0
# modules: virtio_pci virtio_mem

. /phases.sh

zone=Normal online=online
[ "$policy" = virtio-mem ] || zone=Movable online=online_movable

# What the device has taken counts as no memory.
offline_by_zone() {
  echo "$zone $((total - $(meminfo MemTotal)))"
}

start_policy() {
  offliner virtio-mem >/run.log 2>&1 &
  keeper=$!
}

echo $online >"$memory"/auto_online_blocks
load_modules
until [ "$(grep -lx online "$memory"/memory[0-9]*/state | wc -l)" -eq 32 ]; do sleep 1; done
total=$(meminfo MemTotal)
play_phases
