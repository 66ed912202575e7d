package rampart;

import org.teavm.interop.Import;

/** Memory errors, for tests. */
public final class Losses {
    private Losses() {
    }

    /**
     * Loses the line of 64 B that holds a byte of an object, or of the object that has the elements of an array, and
     * collects.
     */
    @Import(module = "rampart", name = "lose")
    public static native void lose(Object object, int at);

    /** Collects. What follows is true until the next collection. */
    @Import(module = "rampart", name = "collect")
    public static native void collect();

    /** Where an object lies in the heap, or the elements of an array. */
    @Import(module = "rampart", name = "offset")
    public static native int offset(Object object);

    /** The frame below a place in the heap; -1 if it is not known. */
    @Import(module = "rampart", name = "frame")
    public static native long frame(int offset);

    /** One of the frames in which nothing was found; -1 if there are no more. */
    @Import(module = "rampart", name = "freeFrame")
    public static native long freeFrame(int number);

    /** Whether a line of standard input has come since the first call. */
    @Import(module = "rampart", name = "isTold")
    public static native boolean isTold();

    /** Waits for a line of standard input. */
    @Import(module = "rampart", name = "await")
    public static native void await();
}
