import org.roaringbitmap.IntIterator;
import org.roaringbitmap.RoaringBitmap;

/** RoaringBitmap keeps the sets of an index, as a database does, and joins, cuts and changes them. */
public class Bitmaps {
    static RoaringBitmap set(Seed seed) {
        RoaringBitmap set = new RoaringBitmap();
        int step = 30 + seed.below(400);
        for (int at = seed.below(step); at < 3_000_000; at += 1 + seed.below(2 * step)) {
            set.add(at);
        }
        return set;
    }

    public static void main(String[] arguments) {
        Seed seed = new Seed(3);
        RoaringBitmap[] sets = new RoaringBitmap[300];
        for (int i = 0; i < sets.length; i++) {
            sets[i] = set(seed);
        }
        int rounds = Seed.rounds(arguments, 300);
        long hash = 0;
        for (int round = 0; round < rounds; round++) {
            RoaringBitmap left = sets[seed.below(sets.length)];
            RoaringBitmap right = sets[seed.below(sets.length)];
            RoaringBitmap both = RoaringBitmap.or(left, right);
            RoaringBitmap common = RoaringBitmap.and(both, sets[seed.below(sets.length)]);
            RoaringBitmap rest = RoaringBitmap.andNot(RoaringBitmap.xor(left, sets[seed.below(sets.length)]), common);
            hash = Seed.mix(hash, both.getCardinality());
            hash = Seed.mix(hash, rest.rank(1_000_000 + seed.below(1_000_000)));
            for (IntIterator each = common.getIntIterator(); each.hasNext();) {
                hash = Seed.mix(hash, each.next());
            }
            if (round % 4 == 0) {
                sets[seed.below(sets.length)] = set(seed);
            }
        }
        System.out.println(Long.toHexString(hash));
    }
}
