import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.WeakHashMap;

/** Weak references are cleared once their objects are gone, and come to their queue; others stay. So do weak keys. */
public class References {
    static Object[] keep = new Object[200];

    public static void main(String[] arguments) {
        ReferenceQueue<Object> queue = new ReferenceQueue<>();
        List<WeakReference<Object>> all = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            Object object = new int[] {i, i + 1};
            if (i % 5 == 0) {
                keep[i / 5] = object;
            }
            all.add(new WeakReference<>(object, queue));
        }
        int cleared = 0;
        int first = 0;
        for (int round = 0; round < 10000 && cleared < 800; round++) {
            byte[] garbage = new byte[50000];
            garbage[round % 50000] = 1;
            if (round % 100 == 99) {
                System.gc();
                cleared = 0;
                for (WeakReference<Object> reference : all) {
                    cleared += reference.get() == null ? 1 : 0;
                }
                first = round == 99 ? cleared : first;
            }
        }
        int wrong = 0;
        for (int i = 0; i < 1000; i++) {
            Object object = all.get(i).get();
            boolean kept = i % 5 == 0;
            wrong += kept && (object != keep[i / 5] || ((int[]) object)[1] != i + 1) ? 1 : 0;
        }
        int queued = 0;
        for (int round = 0; round < 200 && queued < 800; round++) {
            new WeakReference<>(new Object(), queue).get();
            while (queue.poll() != null) {
                queued++;
            }
            System.gc();
        }
        WeakHashMap<Object, Integer> map = new WeakHashMap<>();
        for (int i = 0; i < 1000; i++) {
            map.put(i % 5 == 0 ? keep[i / 5] : new int[] {i}, i);
        }
        for (int round = 0; round < 200 && map.size() > 200; round++) {
            System.gc();
        }
        int values = 0;
        for (int i = 0; i < 1000; i += 5) {
            Integer value = map.get(keep[i / 5]);
            values += value != null && value == i ? 1 : 0;
        }
        System.out.println("keys " + map.size() + ", of which right " + values);
        System.out.println("cleared by the first System.gc() " + first + ", kept " + (1000 - cleared)
            + ", wrong " + wrong + ", queued " + (queued >= 800));
    }
}
