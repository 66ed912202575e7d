import java.util.HashSet;
import java.util.Set;
import rampart.Losses;

/** More objects are lost than have an error each, and exceptions are lost while they are thrown. */
public class ManyLost {
    static final int LOST = 530;

    static long[][] arrays = new long[LOST][];
    static RuntimeException thrown;
    /** Nothing else that is in use lies beside the exception. */
    static Object[] beside = new Object[2];

    static void throwAndLose() {
        beside[0] = new byte[256];
        thrown = new IllegalStateException("it is lost");
        beside[1] = new byte[256];
        try {
            throw thrown;
        } finally {
            Losses.lose(thrown, 0);
        }
    }

    public static void main(String[] arguments) {
        // Before others take all errors.
        try {
            throwAndLose();
            System.out.println("nothing is thrown");
        } catch (IllegalStateException error) {
            System.out.println("what is lost is thrown: " + error.getMessage());
        } catch (VirtualMachineError error) {
            System.out.println("thrown " + error.getClass().getName());
        }
        for (int i = 0; i < LOST; i++) {
            arrays[i] = new long[64];
            arrays[i][60] = i;
        }
        for (int i = 0; i < LOST; i += 2) {
            Losses.lose(arrays[i], 256);
        }
        for (int i = 1; i < LOST; i += 2) {
            Losses.lose(arrays[i], 256);
        }
        Set<Throwable> errors = new HashSet<>();
        int own = 0;
        int shared = 0;
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < LOST; i++) {
                try {
                    System.out.println("read " + arrays[i][60]);
                } catch (VirtualMachineError error) {
                    errors.add(error);
                    own += error.getMessage().endsWith(", of class long[], is lost") ? 1 : 0;
                    shared += error.getMessage().endsWith(" or a later one is lost") ? 1 : 0;
                }
            }
        }
        System.out.println(own + " accesses name a class and " + shared + " do not, by " + errors.size() + " errors");
        for (int i = 0; i < LOST; i++) {
            arrays[i] = new long[64];
            arrays[i][60] = i;
        }
        long sum = 0;
        for (long[] array : arrays) {
            sum += array[60];
        }
        System.out.println("sum " + sum);
    }
}
