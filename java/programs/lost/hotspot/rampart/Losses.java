package rampart;

import java.io.IOException;

/** Stands for the class of the same name on other Java virtual machines: nothing is known of frames. */
public final class Losses {
    private Losses() {
    }

    public static void collect() {
        System.gc();
    }

    public static int offset(Object object) {
        return 0;
    }

    public static long frame(int offset) {
        return -1;
    }

    public static long freeFrame(int number) {
        return -1;
    }

    public static boolean isTold() {
        try {
            return System.in.available() > 0;
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void await() {
        try {
            while (System.in.read() != '\n') {
                continue;
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
