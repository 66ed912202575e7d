import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Too deep a recursion is a StackOverflowError, which each frame may catch; the program goes on as if nothing was. */
public class Recursion {
    static final class Node {
        Node next;
        int value;

        Node(Node next, int value) {
            this.next = next;
            this.value = value;
        }

        @Override
        public int hashCode() {
            return 31 * (next == null ? 1 : next.hashCode()) + value;
        }
    }

    interface Step {
        long next(long depth);
    }

    static long depth;
    static long finished;
    static int zero;

    static long down(long n) {
        depth = n;
        return 1 + down(n + 1);
    }

    static long even(long n) {
        return n == -1 ? 0 : 1 + odd(n + 1);
    }

    static long odd(long n) {
        depth = n;
        return n == -1 ? 0 : 1 + even(n + 1);
    }

    static long throughInterface(Step step, long n) {
        depth = n;
        return 1 + step.next(n + 1);
    }

    /** Each frame has a block that must run. */
    static long withFinally(long n) {
        try {
            depth = n;
            return 1 + withFinally(n + 1);
        } finally {
            finished++;
        }
    }

    /** Each frame makes objects, which collections find on the stack. */
    static int withObjects(int[] before) {
        int[] mine = {before[0] + 1, before[1] ^ before[0]};
        depth++;
        String dropped = "frame " + depth;
        int below = withObjects(mine);
        return below + mine[0] + mine[1] + dropped.length();
    }

    /** The frame that catches is deep itself. */
    static long caughtDeep(long n) {
        if (n > 0) {
            return 1 + caughtDeep(n - 1);
        }
        try {
            return down(0);
        } catch (StackOverflowError error) {
            return 7;
        }
    }

    /** Others do not catch it. */
    static String passed() {
        try {
            try {
                return "returned " + down(0);
            } catch (RuntimeException | OutOfMemoryError other) {
                return "wrong " + other;
            }
        } catch (VirtualMachineError error) {
            return "passed " + error.getClass().getName();
        }
    }

    static void caught(String name, Runnable action) {
        depth = 0;
        try {
            action.run();
            System.out.println(name + ": returned");
        } catch (StackOverflowError error) {
            System.out.println(name + ": " + error + (depth > 500 ? ", deep" : ", at " + depth));
        }
    }

    public static void main(String[] arguments) {
        caught("itself", () -> down(0));
        caught("two", () -> even(0));
        Step[] step = new Step[1];
        step[0] = n -> throughInterface(step[0], n);
        caught("interface", () -> step[0].next(0));
        caught("finally", () -> withFinally(0));
        System.out.println("finally as often as it was entered, but for the last: " + (finished >= depth));
        caught("objects", () -> withObjects(new int[] {0, 0}));
        System.out.println("caught deep: " + caughtDeep(1000));
        System.out.println(passed());

        Node last = new Node(null, 0);
        Node first = last;
        for (int i = 0; i < 5_000; i++) {
            first = new Node(first, i);
        }
        System.out.println("hash of a chain: " + first.hashCode());
        last.next = first;
        try {
            System.out.println("hash of a circle: " + first.hashCode());
        } catch (Throwable error) {
            System.out.println("hash of a circle: " + error);
        }
        int length = 0;
        for (Node node = first; node != last; node = node.next) {
            length++;
        }
        System.out.println("it still has " + length);

        List<Object> itself = new ArrayList<>();
        itself.add(new ArrayList<>(List.of(itself)));
        try {
            System.out.println(itself.hashCode() + zero);
        } catch (StackOverflowError error) {
            System.out.println("a list in itself: " + error.getMessage());
        }
        Map<String, Integer> counts = new HashMap<>();
        for (int i = 0; i < 200; i++) {
            try {
                down(0);
            } catch (StackOverflowError error) {
                counts.merge(error.getClass().getName(), 1, (a, b) -> a + b);
            }
        }
        System.out.println(counts);
    }
}
