import com.carrotsearch.hppc.IntIntHashMap;
import com.carrotsearch.hppc.IntArrayList;
import com.carrotsearch.hppc.LongHashSet;
import com.carrotsearch.hppc.cursors.IntIntCursor;

/** HPPC keeps counts of many users, each in a hash table of its own, and joins, sorts and forgets them. */
public class Tables {
    static IntIntHashMap counts(Seed seed) {
        IntIntHashMap counts = new IntIntHashMap();
        int entries = 40 + seed.below(400);
        for (int i = 0; i < entries; i++) {
            counts.addTo(seed.below(5000), 1 + seed.below(9));
        }
        return counts;
    }

    public static void main(String[] arguments) {
        Seed seed = new Seed(71);
        IntIntHashMap[] users = new IntIntHashMap[2500];
        for (int i = 0; i < users.length; i++) {
            users[i] = counts(seed);
        }
        int rounds = Seed.rounds(arguments, 3000);
        long hash = 0;
        for (int round = 0; round < rounds; round++) {
            IntIntHashMap left = users[seed.below(users.length)];
            IntIntHashMap right = users[seed.below(users.length)];
            LongHashSet pairs = new LongHashSet();
            IntArrayList common = new IntArrayList();
            for (IntIntCursor each : left) {
                if (right.containsKey(each.key)) {
                    common.add(each.key);
                }
                pairs.add((long) each.value << 32 | each.key % 700);
            }
            IntIntHashMap sum = new IntIntHashMap(right);
            for (IntIntCursor each : left) {
                sum.addTo(each.key, each.value);
            }
            long order = 0;
            for (int key : common.toArray()) {
                order += (long) key * sum.get(key);
            }
            hash = Seed.mix(Seed.mix(hash, order), sum.size() * 1000L + pairs.size());
            users[seed.below(users.length)] = sum.size() > 600 ? counts(seed) : sum;
        }
        System.out.println(Long.toHexString(hash));
    }
}
