import java.lang.ref.WeakReference;
import java.util.WeakHashMap;

/**
 * Equal interned strings are one object for as long as the program holds it. Weak references to strings are cleared.
 */
public class Interned {
    static String[] kept = new String[500];

    static String fresh(int number) {
        return new StringBuilder("name ").append(number).toString();
    }

    public static void main(String[] arguments) {
        int hash = 7;
        for (int i = 0; i < 400000; i++) {
            String name = fresh(i % 150000).intern();
            if (i % 800 == 0) {
                kept[i / 800] = name;
            }
            hash = hash * 31 + name.length() + name.charAt(name.length() - 1);
            if (i % 50000 == 0) {
                System.gc();
            }
        }
        int same = 0;
        for (int i = 0; i < kept.length; i++) {
            same += kept[i] == fresh(i * 800 % 150000).intern() ? 1 : 0;
        }
        System.out.println("hash " + hash + ", of " + kept.length + " names the same object: " + same);
        System.out.println("literal " + (new StringBuilder("lit").append("eral").toString().intern() == "literal")
            + ", other " + (fresh(1) == fresh(1)));

        WeakReference<?>[] interned = new WeakReference<?>[1000];
        WeakReference<?>[] plain = new WeakReference<?>[1000];
        WeakHashMap<String, Integer> map = new WeakHashMap<>();
        for (int i = 0; i < 1000; i++) {
            interned[i] = new WeakReference<>(fresh(1000000 + i).intern());
            plain[i] = new WeakReference<>(fresh(i));
            map.put(i % 2 == 0 ? kept[i / 2] : fresh(2000000 + i), i);
        }
        System.gc();
        int clearedInterned = 0;
        int clearedPlain = 0;
        for (int i = 0; i < 1000; i++) {
            clearedInterned += interned[i].get() == null ? 1 : 0;
            clearedPlain += plain[i].get() == null ? 1 : 0;
        }
        for (int round = 0; round < 200 && map.size() > 500; round++) {
            System.gc();
        }
        int values = 0;
        for (int i = 0; i < 1000; i += 2) {
            Integer value = map.get(kept[i / 2]);
            values += value != null && value >= i ? 1 : 0;
        }
        System.out.println("cleared " + clearedInterned + " interned and " + clearedPlain + " other strings, keys left "
            + map.size() + ", with a value " + values);
    }
}
