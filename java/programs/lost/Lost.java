import rampart.Losses;

/**
 * Objects lose their data: each access throws, again and again, and all others are what they were. Losses.lose stands
 * for a memory error; the rest is plain Java.
 */
public class Lost {
    static final class Node {
        Node next;
        int value;
        long padding;
        Object data;

        Node(Node next, int value) {
            this.next = next;
            this.value = value;
            this.data = new int[] {value, -value};
        }

        int get() {
            return value;
        }
    }

    static final class Wide {
        long a;
        long b;
        long c;
        long d;
        long e;
        long f;
        long g;
        long h;
        long i;

        Wide(int n) {
            a = b = c = d = e = f = g = h = i = n;
        }
    }

    static final class Box {
        Wide last;
    }

    static Node[] nodes = new Node[20000];
    static Box box = new Box();
    static Wide spare = new Wide(2);
    static Node held;
    static Wide[] wide;

    static int read(Node node) {
        return node.value;
    }

    /** Handler and access are in one method. */
    static String access(Node node, int way) {
        try {
            switch (way) {
                case 0:
                    return "" + node.value;
                case 1:
                    node.value = 5;
                    return "written";
                case 2:
                    return "" + node.get();
                case 3:
                    return "" + node.next;
                case 4:
                    return "" + ((int[]) node.data)[0];
                case 5:
                    return "" + (((Object) node) instanceof Lost);
                case 6:
                    return "" + node.getClass().getName();
                case 7:
                    synchronized (node) {
                        return "locked";
                    }
                default:
                    return "" + (node == held) + (node != null);
            }
        } catch (Throwable error) {
            return error.getClass().getName();
        }
    }

    interface Access {
        int read();
    }

    static String withoutNumber(Throwable error) {
        String message = error.getMessage();
        int end = "the data of object ".length();
        while (Character.isDigit(message.charAt(end))) {
            end++;
        }
        return "the data of object N" + message.substring(end);
    }

    static String message(Access access) {
        try {
            return "" + access.read();
        } catch (VirtualMachineError error) {
            return withoutNumber(error);
        }
    }

    static long[] check() {
        long lost = 0;
        long sum = 0;
        for (int i = 0; i < nodes.length; i++) {
            try {
                int value = read(nodes[i]);
                int[] data = (int[]) nodes[i].data;
                if (value != i || data[0] != i || data[1] != -i || data.length != 2) {
                    throw new IllegalStateException("node " + i + " has changed");
                }
                sum += value;
            } catch (VirtualMachineError error) {
                lost++;
            }
        }
        return new long[] {lost, sum};
    }

    public static void main(String[] arguments) {
        Node before = null;
        for (int i = 0; i < nodes.length; i++) {
            before = new Node(i % 100 == 0 ? null : before, i);
            nodes[i] = before;
        }
        held = nodes[100];
        Losses.lose(held, 0);
        for (int round = 0; round < 2; round++) {
            for (int way = 0; way < 9; way++) {
                System.out.println(way + " " + access(held, way));
            }
        }
        System.out.println(check()[0] > 0);
        // Nothing is left that names its class, but the code that reads it.
        System.out.println(message(() -> held.value));
        System.out.println(message(() -> held.get()));
        // Its class is known: that was in another line.
        wide = new Wide[] {null, new Wide(nodes.length)};
        Losses.lose(wide[1], 90);
        try {
            Wide read = wide[1];
            System.out.println(read.a + read.b + read.c + read.d + read.e + read.f + read.g + read.h + read.i);
        } catch (VirtualMachineError error) {
            System.out.println(withoutNumber(error));
        }
        // Its holder is no array.
        box.last = new Wide(1);
        Losses.lose(box.last, 0);
        System.out.println(message(() -> (int) (box.last.a + spare.a)));
        // Bytes of an array, of a node behind its header, and of a large array.
        Losses.lose(nodes[5000].data, 20);
        Losses.lose(nodes[7000], 20);
        byte[] large = new byte[100000];
        large[99999] = 7;
        Losses.lose(large, 16);
        try {
            System.out.println(large[99999]);
        } catch (Throwable error) {
            System.out.println(withoutNumber(error));
        }
        large = new byte[100000];
        Losses.lose(large, 50000);
        final byte[] half = large;
        System.out.println(message(() -> half[0]));
        byte[] copy = new byte[10];
        try {
            System.arraycopy(large, 0, copy, 0, 10);
            System.out.println("copied");
        } catch (Throwable error) {
            System.out.println(error.getClass());
        }
        long[] before1 = check();
        for (int round = 0; round < 20; round++) {
            Object[] garbage = new Object[1000];
            for (int i = 0; i < garbage.length; i++) {
                garbage[i] = new byte[i % 500];
            }
        }
        long[] after = check();
        System.out.println(before1[0] == after[0] && before1[1] == after[1] ? "the same" : "changed");
        System.out.println(after[0] >= 3 && after[0] <= 12);
        // What is lost can be replaced.
        for (int i = 0; i < nodes.length; i++) {
            try {
                nodes[i].get();
                nodes[i].data.hashCode();
                int first = ((int[]) nodes[i].data)[0];
            } catch (Throwable error) {
                nodes[i] = new Node(null, i);
            }
        }
        System.out.println(check()[0] + " " + check()[1]);
        Losses.lose(nodes[3], 8);
        System.out.println(read(nodes[3]));
    }
}
