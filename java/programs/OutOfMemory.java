import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Memory runs out in many ways, and the program goes on. Its heap has 8 MiB, and HotSpot has 8 MiB too.
 */
public class OutOfMemory {
    static final class Node {
        Node next;
        int value;

        Node(Node next, int value) {
            this.next = next;
            this.value = value;
        }
    }

    static Object keep;
    static int finals;

    /** Allocation and handler are in one method. */
    static boolean smallHere() {
        Node list = null;
        try {
            while (true) {
                list = new Node(list, 1);
            }
        } catch (OutOfMemoryError error) {
            int count = 0;
            for (; list != null; list = list.next) {
                count += list.value;
            }
            return count > 10000 && "Java heap space".equals(error.getMessage());
        }
    }

    /** The handler is in another frame, and each frame between has a `finally`. */
    static int deep(int depth, List<byte[]> list, int size) {
        try {
            if (depth == 0) {
                while (true) {
                    list.add(new byte[size]);
                }
            }
            return deep(depth - 1, list, size) + 1;
        } finally {
            finals++;
        }
    }

    static boolean arrays(int size) {
        List<byte[]> list = new ArrayList<>();
        try {
            return deep(10, list, size) < 0;
        } catch (Error error) {
            int count = list.size();
            list = null;
            return error instanceof OutOfMemoryError && count > 1_000_000 / size;
        }
    }

    /** The handler runs out of memory itself, and so does the handler of that. */
    static int nested(int depth) {
        Object[] list = null;
        try {
            while (true) {
                list = new Object[] {list, new int[200]};
            }
        } catch (Throwable error) {
            int inner = depth > 0 ? nested(depth - 1) : 0;
            return 10 * inner + (error instanceof OutOfMemoryError && (list != null || depth < 3) ? 1 : 2);
        }
    }

    /** Host objects: each weak reference has one. */
    static boolean references() {
        List<WeakReference<Object>> list = new ArrayList<>();
        Object object = new Object();
        try {
            while (true) {
                list.add(new WeakReference<>(object));
            }
        } catch (OutOfMemoryError error) {
            boolean same = true;
            for (int i = 0; i < 1000; i++) {
                same &= list.get(i).get() == object;
            }
            return same;
        }
    }

    static boolean map() {
        Map<String, Integer> map = new HashMap<>();
        int count = 0;
        try {
            while (true) {
                map.put("key" + count, count);
                count++;
            }
        } catch (OutOfMemoryError error) {
            int right = 0;
            // Nothing of this allocates: all that there is can still be reached.
            right += map.get("key0") == 0 ? 1 : 0;
            right += map.get("key10") == 10 ? 1 : 0;
            right += map.get("key3000") == 3000 ? 1 : 0;
            return right == 3 && map.size() >= count;
        }
    }

    static String huge(int which) {
        try {
            switch (which) {
                case 0:
                    keep = new byte[1 << 30];
                    break;
                case 1:
                    keep = new long[1 << 30];
                    break;
                case 2:
                    keep = new Object[Integer.MAX_VALUE];
                    break;
                case 3:
                    keep = new int[1000][1 << 20];
                    break;
                case 4:
                    keep = new byte[-1];
                    break;
                case 5:
                    keep = new String[Integer.MIN_VALUE];
                    break;
                default:
                    keep = new StringBuilder(1 << 29);
            }
            return "made";
        } catch (Throwable error) {
            return error.getClass().getName();
        }
    }

    static String wrapped() {
        try {
            try {
                keep = smallHere() ? new int[1 << 28] : null;
            } finally {
                finals += 1000;
            }
            return "made";
        } catch (Error error) {
            RuntimeException wrapper = new RuntimeException("wrapped", error);
            return wrapper.getMessage() + " " + wrapper.getCause().getMessage();
        }
    }

    static Node grow(int count) {
        Node list = null;
        for (int i = 0; i < count; i++) {
            list = new Node(list, i);
        }
        return list;
    }

    static long sum(Node list) {
        long sum = 0;
        for (; list != null; list = list.next) {
            sum = 31 * sum + list.value;
        }
        return sum;
    }

    public static void main(String[] arguments) {
        Node stays = grow(20000);
        for (int round = 0; round < 5; round++) {
            System.out.println("small " + smallHere());
            for (int size : new int[] {24, 300, 3000, 9000, 50000, 700000}) {
                System.out.println("arrays of " + size + " " + arrays(size));
            }
            System.out.println("nested " + nested(3));
            System.out.println("references " + references());
            System.out.println("map " + map());
            for (int which = 0; which < 7; which++) {
                System.out.println("huge " + huge(which));
            }
            System.out.println(wrapped());
            System.out.println("stays " + sum(stays) + ", finally " + finals);
        }
    }
}
