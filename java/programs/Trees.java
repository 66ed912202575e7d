/** Binary trees that come and go, beside one that stays; arrays of all sizes; a table that is written to. */
public class Trees {
    static final class Node {
        Node left;
        Node right;
    }

    static Node grow(int depth) {
        Node node = new Node();
        if (depth > 0) {
            node.left = grow(depth - 1);
            node.right = grow(depth - 1);
        }
        return node;
    }

    static int count(Node node) {
        return node == null ? 0 : 1 + count(node.left) + count(node.right);
    }

    static int seed = 17;

    static int random(int below) {
        seed = seed * 1103515245 + 12345;
        return (seed >>> 8 & 0x7fffff) % below;
    }

    static Object pair(Object first, Object second) {
        Object[] pair = {first, second};
        return pair;
    }

    public static void main(String[] arguments) {
        int depth = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 14;
        Node stays = grow(depth);
        Object[] table = new Object[5000];
        long sum = 0;
        for (int round = 0; round < 60; round++) {
            sum += count(grow(depth - 2));
            for (int i = 0; i < 2000; i++) {
                int size = random(100) < 97 ? random(64) : random(40000);
                byte[] bytes = new byte[size];
                for (int k = 0; k < size; k += 16) {
                    bytes[k] = (byte) (size + k);
                }
                table[random(table.length)] = random(4) == 0 ? pair(bytes, table[random(50)]) : bytes;
            }
            for (Object entry : table) {
                if (entry instanceof byte[]) {
                    byte[] bytes = (byte[]) entry;
                    for (int k = 0; k < bytes.length; k += 16) {
                        if (bytes[k] != (byte) (bytes.length + k)) {
                            throw new AssertionError("an array has changed");
                        }
                    }
                    sum += bytes.length;
                }
            }
            for (int i = 0; i < 50; i++) {
                table[i] = null;
            }
        }
        System.out.println(sum + " " + count(stays) + " " + arguments.length);
    }
}
