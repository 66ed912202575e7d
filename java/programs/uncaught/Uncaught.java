import java.util.ArrayList;
import java.util.List;

/** Memory runs out, and nobody catches it: all that there is can still be reached. */
public class Uncaught {
    static List<Object> keep = new ArrayList<>();

    public static void main(String[] arguments) {
        while (true) {
            keep.add(new int[arguments.length + 1]);
        }
    }
}
