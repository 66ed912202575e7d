import java.util.ArrayList;
import java.util.List;

/** What goes wrong in Java code is an exception, in the method itself and in those that it calls. */
public class Exceptions {
    interface Action {
        Object run() throws Exception;
    }

    static int zero;
    static int[] array = new int[3];
    static String nothing;
    static Object text = "text";
    static Object[] texts = new String[1];

    static void caught(String name, Action action) throws Exception {
        try {
            System.out.println(name + ": " + action.run());
        } catch (RuntimeException exception) {
            System.out.println(name + ": " + exception.getClass().getName());
        }
    }

    static int depth(int depth) {
        return depth == 0 ? array[3 + zero] : 1 + depth(depth - 1);
    }

    public static void main(String[] arguments) throws Exception {
        caught("read behind", () -> array[array.length + zero]);
        caught("read before", () -> array[zero - 1]);
        caught("write", () -> array[3 + zero] = 1);
        caught("null call", () -> nothing.length());
        caught("null length", () -> ((int[]) (Object) nothing).length);
        caught("cast", () -> ((Integer) text).intValue());
        caught("divide", () -> 1 / zero);
        caught("rest", () -> 1L % zero);
        caught("least", () -> Integer.MIN_VALUE / (zero - 1));
        caught("least rest", () -> Long.MIN_VALUE % (zero - 1L));
        caught("size", () -> new int[zero - 1].length);
        caught("deep", () -> depth(1000));
        caught("number", () -> Integer.parseInt("1x"));
        caught("list", () -> new ArrayList<>(List.of(1)).get(1));
        try {
            System.out.println(10 / zero);
        } catch (ArithmeticException exception) {
            System.out.println("here: " + exception.getMessage());
        } finally {
            System.out.println("finally");
        }
        try {
            System.out.println(array[zero + 7]);
        } catch (ArrayIndexOutOfBoundsException exception) {
            System.out.println("here, too");
        }
    }
}
